// Functions that resolve, and refuse by their name.
#include "abi.h"

namespace partita::remote::shim {

constexpr int kBlasNotSupported = 15;
#define UNSUPPORTED(name)     \
  CUDA_EXPORT int name() {    \
    unsupported(#name);       \
    return kBlasNotSupported; \
  }
#include "unsupported.inc"
#undef UNSUPPORTED

}  // namespace partita::remote::shim
