// Memory of the program that is pinned: allocated here, or registered.
// What is allocated here lies at an address of the session's arena, so that kernels find it under
// the program's address wherever they read that. The device is given it once something that goes
// there names it: until then its pages do not travel. Where the address is taken, and for
// registered memory, the device has another address, which the parameters of kernels get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

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

  bool has_one_address(const void* memory);  // pinned, and the device's address is the same
  // Where kernels find pinned memory; from now on it is managed memory.
  Got<std::uint64_t> device_address(const void* host);
  // On devices with one address space a kernel takes the program's own address of such memory: in
  // a block of parameters it becomes the device's.
  Status map_parameters(Lock& lock, std::span<std::byte> block);
  // The same for an address that an operation names.
  Status map_address(Lock& lock, DevicePointer& address);
  // The same for bytes that go to this address of the device's, which stay as they are.
  Status map_named(Lock& lock, std::uint64_t to, Bytes bytes);
  // Where the device has pinned memory that it uses, which is managed memory then.
  std::optional<std::uint64_t> mapped(const Lock& lock, const void* memory, std::uint64_t bytes);
  std::vector<Block> blocks_on_device(const Lock& lock) const;
  bool any() const { return !pinned_.empty(); }
  void clear();  // the device has none of it any more
  void reserve_again(Arena& fresh);

 private:
  struct Pinned {
    std::uint64_t bytes = 0;
    std::uint64_t device = 0;  // where the device has it; 0: nothing of the device's has used it
    bool registered = false;   // the program's own
    std::uint64_t reserved = 0;  // addresses in the arena; 0: none
  };
  std::optional<std::uint64_t> make_pages(Lock& lock, std::uint64_t bytes);
  Status release_pages(const Lock& lock, std::uint64_t address, const Pinned& pinned);
  Got<std::uint64_t> make_room(Lock& lock, std::uint64_t address, const Pinned& pinned);
  Block on_device(std::uint64_t address, const Pinned& pinned) const;
  Got<std::uint64_t> device_address(Lock& lock, std::uint64_t host);
  Status unpin(void* memory, bool registered);

  Session& all_;
  Core& core_;
  std::map<std::uintptr_t, Pinned> pinned_;
  std::size_t unnamed_ = 0;      // with reserved addresses that nothing has named
  std::uint64_t named_end_ = 0;  // addresses behind it were never named
  bool said_ = false;
};

}  // namespace partita::remote::client
