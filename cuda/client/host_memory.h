// Memory of the program that is pinned: allocated here, or registered.
#pragma once

#include <cstdint>
#include <map>

#include "client/core.h"

namespace partita::remote::client {

class Session;

class HostMemory {
 public:
  HostMemory(Session& all, Core& core) : all_(all), core_(core) {}

  Got<void*> allocate(std::uint64_t bytes);
  Status release(void* memory);
  Status enter(void* memory, std::uint64_t bytes);  // cudaHostRegister
  Status leave(void* memory);
  bool is_pinned(const void* memory, std::uint64_t bytes);
  bool is_pinned(const Lock& lock, const void* memory, std::uint64_t bytes) const;

 private:
  Session& all_;
  Core& core_;
  std::map<std::uintptr_t, std::uint64_t> pinned_;
  std::map<std::uintptr_t, std::uint64_t> registered_;
};

}  // namespace partita::remote::client
