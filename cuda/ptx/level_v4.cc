// The ops for x86-64-v4; empty where that is not built.
#if defined(__x86_64__) && defined(PARTITA_PTX_v4)
#define PARTITA_PTX_LEVEL v4
#include "ptx/level_parts.inc"
#endif
