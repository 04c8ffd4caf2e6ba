// Memory of the program that is pinned: allocated here, or registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

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

  // Where kernels find pinned memory; from now on it is managed memory.
  Got<std::uint64_t> device_address(const void* host);
  // On devices with one address space a kernel takes the program's own address of such memory: in
  // a block of parameters it becomes the device's.
  Status map_parameters(Lock& lock, std::span<std::byte> block);
  // The same for an address that an operation names.
  Status map_address(Lock& lock, DevicePointer& address);
  bool any() const { return !pinned_.empty(); }
  void clear();  // the device has none of it any more

 private:
  struct Pinned {
    std::uint64_t bytes = 0;
    std::uint64_t device = 0;  // where the device has it; 0: nothing of the device's has used it
    bool registered = false;   // the program's own
  };
  Got<std::uint64_t> device_address(Lock& lock, std::uint64_t host);
  Status unpin(void* memory, bool registered);

  Session& all_;
  Core& core_;
  std::map<std::uintptr_t, Pinned> pinned_;
};

}  // namespace partita::remote::client
