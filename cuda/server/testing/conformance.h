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
  // With kTexturesPtx's and kConditionsPtx's kernels; empty: nothing of the kind is asked for.
  std::string textures = {}, conditions = {};
};

// fetch(u64 texture, u64 to, u32 width): the texel that thread x of block y sees at (x, y) goes to
// to[y * width + x]. paint(u64 surface, u64, u32 more): it becomes x + 16 y + more.
extern const char* const kTexturesPtx;
// decide(u64 condition, u32 value).
extern const char* const kConditionsPtx;

std::vector<std::string> check_backend(DeviceBackend& backend, const ConformanceModule& module);

}  // namespace partita::remote::server
