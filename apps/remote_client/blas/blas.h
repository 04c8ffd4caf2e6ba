// What the parts of libcublas share: its status codes and its handle.
#pragma once

#include <cstdint>
#include <map>

#include "library.h"

namespace partita::remote::shim {

enum BlasStatus : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalid = 7,
  kExecutionFailed = 13,
  kInternal = 14,
  kUnsupported = 15,
};

inline constexpr Codes kCodes{.not_ready = kNotInitialized,
                              .no_memory = kAllocFailed,
                              .invalid = kInvalid,
                              .failed = kExecutionFailed,
                              .unsupported = kUnsupported};

struct BlasHandle {
  void* stream = nullptr;
  int pointer_mode = 0;  // 1: factors and results lie on the device
  int math_mode = 0, atomics = 0, units = 0;
  std::uint64_t constants = 0;               // on the device
  std::map<void*, std::uint64_t> sums = {};  // there, too: parts of sums, by stream
  bool on_device() const { return pointer_mode == 1; }
};

}  // namespace partita::remote::shim
