// Functions of a library that resolve, and refuse by their name with the library's own number.
#include "abi.h"

namespace partita::remote::shim {

#define UNSUPPORTED(name)         \
  CUDA_EXPORT int name() {        \
    unsupported(#name);           \
    return PARTITA_NOT_SUPPORTED; \
  }
#include "unsupported.inc"
#undef UNSUPPORTED

}  // namespace partita::remote::shim
