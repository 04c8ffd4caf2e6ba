// The suite that every DeviceBackend passes. It returns what is wrong, in sentences; nothing when
// all is well. The backend is fresh; afterwards it is dead (the suite ends with a fault).
#pragma once

#include <string>
#include <vector>

#include "server/backend.h"

namespace partita::remote::server {

struct ConformanceModule {
  std::string image = {};
  // Kernels: add(u64 to, u32 count, u32 more) adds to `count` u32s with `count` threads of one
  // block; crash(), whose launch is a fault of this status.
  std::string add = "add", crash = "crash";
  Status fault = kIllegalAddress;
  // A global of 4 bytes; empty: none.
  std::string global = {};
};

std::vector<std::string> check_backend(DeviceBackend& backend, const ConformanceModule& module);

}  // namespace partita::remote::server
