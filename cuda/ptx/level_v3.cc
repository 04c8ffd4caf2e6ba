// The ops for x86-64-v3; empty where that is not built.
#if defined(__x86_64__) && defined(PARTITA_PTX_v3)
#define PARTITA_PTX_LEVEL v3
#include "ptx/level_parts.inc"
#endif
