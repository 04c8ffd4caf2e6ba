// Memory of a session on the device: addresses, copies, values set, products.
// Functions without a Lock take the session's; the others are for the session's other parts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>

#include "client/core.h"

namespace partita::remote::client {

class Session;

struct MemoryState {
  std::uint64_t free = 0, total = 0;
};

class DeviceMemory {
 public:
  DeviceMemory(Session& all, Core& core) : all_(all), core_(core) {}

  Got<std::uint64_t> allocate(std::uint64_t bytes);
  Status release(std::uint64_t address);
  Status release_on(std::uint64_t stream, std::uint64_t address);
  std::optional<Block> block_of(std::uint64_t address);
  int device_of(std::uint64_t address);  // where it was allocated
  bool contains(std::uint64_t address);
  // Whether these bytes lie in one block, or in a module's variable.
  bool covers(std::uint64_t address, std::uint64_t bytes);
  Got<MemoryState> state();
  // What malloc in kernels may hold: kHeapBytes beside the session's memory, the rest of it.
  Status limit_heap(std::uint64_t bytes);
  std::uint64_t heap_limit() const { return heap_; }
  // From the program's memory, which may be reused on return; pinned memory is read when the stream
  // gets there. `later`: only once it has got there may pinned memory be reused.
  Status copy_in(std::uint64_t stream, std::uint64_t to, const void* from, std::uint64_t bytes,
                 bool later = false);
  // `later`: the stream's next synchronisation is early enough where the memory is pinned.
  Status copy_out(std::uint64_t stream, void* to, std::uint64_t from, std::uint64_t bytes,
                  bool later);
  Status copy(std::uint64_t stream, const CopyDevice& copy);
  Status copy(std::uint64_t stream, const ArrayCopy& copy);
  Status set(std::uint64_t stream, const Set& set);
  Status multiply(std::uint64_t stream, const Gemm& gemm);

  // In a capture: memory of the graph that it makes.
  Got<std::uint64_t> allocate_on(std::uint64_t stream, std::uint64_t bytes);
  // Addresses, and memory put there (virtual memory management).
  Got<std::uint64_t> reserve(std::uint64_t bytes, std::uint64_t align);
  Status unreserve(std::uint64_t address, std::uint64_t bytes);
  Status map(const Block& part);
  Status unmap(const Block& parts);  // all that were mapped there, each as a whole

  Got<std::uint64_t> reserve(const Lock& lock, std::uint64_t bytes, std::uint64_t align);
  Got<std::uint64_t> allocate(Lock& lock, std::uint64_t bytes, std::uint64_t align = 0);
  Status release(const Lock& lock, std::uint64_t address);
  Status release_behind(const Lock& lock, std::uint64_t real, std::uint64_t address);
  void add_global(const Block& variable) { globals_[variable.address] = variable.bytes; }
  Arena& arena();
  void clear();

 private:
  template <class Work>
  Status enqueue(std::uint64_t stream, Work work, bool reads = true);

  Session& all_;
  Core& core_;
  std::optional<Arena> arena_;
  std::atomic<std::uint64_t> heap_ = kHeapBytes;
  std::map<std::uint64_t, int> elsewhere_;          // blocks of other devices than the first
  std::map<std::uint64_t, std::uint64_t> globals_;  // begin to length, of modules' variables
};

}  // namespace partita::remote::client
