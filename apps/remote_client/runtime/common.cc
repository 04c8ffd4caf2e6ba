// What the shims of the runtime and of the driver both need.
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "abi.h"

namespace partita::remote::shim {

using client::kOk;

Status& last_error() {
  thread_local Status status = kOk;
  return status;
}

Status unsupported(const char* function) {
  static std::mutex mutex;
  static std::set<std::string>* const said = new std::set<std::string>;
  try {
    const std::lock_guard lock(mutex);
    if (said->insert(function).second)
      std::fprintf(stderr, "partita remote: %s is not supported\n", function);
  } catch (...) {
    std::fputs("partita remote: out of memory\n", stderr);
  }
  return remember(client::kNotSupported);
}

}  // namespace partita::remote::shim
