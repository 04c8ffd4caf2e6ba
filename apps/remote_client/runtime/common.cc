// What the shims of the runtime and of the driver both need.
#include <cstdio>

#include "abi.h"

namespace partita::remote::shim {

using client::kOk;

Status& last_error() {
  thread_local Status status = kOk;
  return status;
}

Status unsupported(const char* function) {
  try {
    client::session().refuse(function);
  } catch (...) {
    std::fputs("partita remote: out of memory\n", stderr);
  }
  return remember(client::kNotSupported);
}

}  // namespace partita::remote::shim
