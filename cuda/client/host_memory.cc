#include "client/host_memory.h"

#include <cstdlib>

#include "client/session.h"

namespace partita::remote::client {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

Got<void*> HostMemory::allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  if (bytes > kMost) return refused(kMemoryAllocation);
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return refused(kMemoryAllocation);
  const Lock lock(core_.mutex);
  pinned_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

Status HostMemory::release(void* memory) {
  if (memory == nullptr) return kOk;
  // Bytes that still come for it have no place afterwards.
  if (const Status status = all_.streams.synchronise(); status == kLost) return status;
  {
    const Lock lock(core_.mutex);
    if (pinned_.erase(reinterpret_cast<std::uintptr_t>(memory)) == 0) return kInvalidValue;
  }
  std::free(memory);
  return kOk;
}

Status HostMemory::enter(void* memory, std::uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  constexpr Status kAlreadyRegistered = 712;
  const Lock lock(core_.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (!pinned_.emplace(at, bytes).second) return kAlreadyRegistered;
  registered_.emplace(at, bytes);
  return kOk;
}

Status HostMemory::leave(void* memory) {
  constexpr Status kNotRegistered = 713;
  if (const Status status = all_.streams.synchronise(); status == kLost) return status;
  const Lock lock(core_.mutex);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  if (registered_.erase(at) == 0) return kNotRegistered;
  pinned_.erase(at);
  return kOk;
}

bool HostMemory::is_pinned(const void* memory, std::uint64_t bytes) {
  const Lock lock(core_.mutex);
  return is_pinned(lock, memory, bytes);
}

bool HostMemory::is_pinned(const Lock&, const void* memory, std::uint64_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  auto next = pinned_.upper_bound(at);
  if (next == pinned_.begin()) return false;
  --next;
  return at - next->first < next->second && bytes <= next->second - (at - next->first);
}

}  // namespace partita::remote::client
