// What the shims of NVIDIA's libraries share: status codes, and launches of kernels of our own
// (kernels.cu), which any back end runs as it runs a program's.
#pragma once

#include <string_view>

#include "abi.h"

namespace partita::remote::shim {

using Index = std::uint32_t;

// Launches `threads` threads of the kernel in the stream; the parameters have its types.
Status launch_own(std::string_view kernel, void* stream, std::uint64_t threads, void** parameters);

template <class... Parameters>
Status run_own(std::string_view kernel, void* stream, std::uint64_t threads,
               Parameters... parameters) {
  void* places[] = {static_cast<void*>(&parameters)...};
  return launch_own(kernel, stream, threads, places);
}

// The numbers that a library has for these outcomes.
struct Codes {
  int not_ready, no_memory, invalid, failed, unsupported;
  int of(Status status) const {
    switch (status) {
      case client::kOk:
        return 0;
      case client::kMemoryAllocation:
        return no_memory;
      case client::kInvalidValue:
        return invalid;
      case client::kNotSupported:
        return unsupported;
      case client::kNoDevice:
      case client::kLost:
        return not_ready;
      default:
        return failed;
    }
  }
  int refused(const char* what) const {
    shim::unsupported(what);
    return unsupported;
  }
  // Runs a function's body, which may give a status of the session's or a number of the library's.
  template <class Body>
  int answered(Body&& body) const noexcept {
    try {
      session().stats().calls.fetch_add(1, std::memory_order_relaxed);
      return body();
    } catch (const std::bad_alloc&) {
      return no_memory;
    } catch (...) {
      return failed;
    }
  }
  // A descriptor or a handle, which is a struct of the shim's.
  template <class T, class... Values>
  int make(void** into, Values... values) const noexcept {
    return answered([&] {
      if (into == nullptr) return invalid;
      *into = new T{values...};
      return 0;
    });
  }
};

template <class T>
int drop(const void* object) {
  delete static_cast<const T*>(object);
  return 0;
}

}  // namespace partita::remote::shim
