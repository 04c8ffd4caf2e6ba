// Every other function of the driver: it says its name once and refuses.
#include "abi.h"

namespace partita::remote::shim {

#define UNSUPPORTED(name) \
  CUDA_EXPORT Status name() { return unsupported(#name); }
#include "driver_unsupported.inc"
#undef UNSUPPORTED

}  // namespace partita::remote::shim
