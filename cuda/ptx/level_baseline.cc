// The ops as the compiler's baseline has them: the only level where there are no others.
#define PARTITA_PTX_LEVEL baseline
#include "ptx/level_parts.inc"
