// The ops for x86-64-v3; empty on other processors.
#if defined(__x86_64__) && defined(PARTITA_PTX_LEVELS)
#define PARTITA_PTX_LEVEL v3
#include "ptx/level_parts.h"
#endif
