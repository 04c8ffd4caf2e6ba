#include "client/host_memory.h"

#include <cstdlib>
#include <cstring>

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
  pinned_[reinterpret_cast<std::uintptr_t>(memory)] = {.bytes = bytes};
  return memory;
}

Status HostMemory::unpin(void* memory, bool registered) {
  // Bytes that still come for it have no place afterwards.
  if (const Status status = all_.streams.synchronise(); status == kLost) return status;
  Lock lock(core_.mutex);
  const auto found = pinned_.find(reinterpret_cast<std::uintptr_t>(memory));
  constexpr Status kNotRegistered = 713;
  if (found == pinned_.end() || found->second.registered != registered)
    return registered ? kNotRegistered : kInvalidValue;
  const std::uint64_t device = found->second.device;
  pinned_.erase(found);
  if (device == 0) return kOk;
  all_.managed.unmap(lock, device);
  return all_.memory.release(lock, device);
}

Status HostMemory::release(void* memory) {
  if (memory == nullptr) return kOk;
  const Status status = unpin(memory, false);
  if (status != kLost && status != kInvalidValue) std::free(memory);
  return status;
}

Status HostMemory::enter(void* memory, std::uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  constexpr Status kAlreadyRegistered = 712;
  const Lock lock(core_.mutex);
  const Pinned pinned{.bytes = bytes, .registered = true};
  const bool fresh = pinned_.emplace(reinterpret_cast<std::uintptr_t>(memory), pinned).second;
  return fresh ? kOk : kAlreadyRegistered;
}

Status HostMemory::leave(void* memory) { return unpin(memory, true); }

Got<std::uint64_t> HostMemory::device_address(Lock& lock, std::uint64_t host) {
  auto next = pinned_.upper_bound(host);
  if (next == pinned_.begin()) return refused(kInvalidValue);
  Pinned& pinned = (--next)->second;
  if (host - next->first > pinned.bytes) return refused(kInvalidValue);
  if (pinned.device == 0) {
    const auto address = all_.memory.allocate(lock, pinned.bytes, kHostPage);
    if (!address) return address;
    pinned.device = *address;
    auto* const memory = reinterpret_cast<std::byte*>(next->first);
    const Status status = all_.managed.adopt(lock, {*address, pinned.bytes}, memory);
    if (status != kOk) return refused(status);
  }
  return pinned.device + (host - next->first);
}

Got<std::uint64_t> HostMemory::device_address(const void* host) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (!is_pinned(lock, host, 1)) return refused(kInvalidValue);
  return device_address(lock, reinterpret_cast<std::uintptr_t>(host));
}

Status HostMemory::map_parameters(Lock& lock, std::span<std::byte> block) {
  if (pinned_.empty()) return kOk;
  const std::uint64_t first = pinned_.begin()->first;
  const std::uint64_t end = pinned_.rbegin()->first + pinned_.rbegin()->second.bytes;
  for (std::size_t at = 0; at + sizeof first <= block.size(); at += sizeof first) {
    std::uint64_t word = 0;
    std::memcpy(&word, block.data() + at, sizeof word);
    if (word < first || word > end) continue;
    if (!is_pinned(lock, reinterpret_cast<const void*>(word), 0)) continue;
    const auto there = device_address(lock, word);
    if (!there) return there.error();
    std::memcpy(block.data() + at, &*there, sizeof word);
  }
  return kOk;
}

Status HostMemory::map_address(Lock& lock, DevicePointer& address) {
  return map_parameters(lock, std::as_writable_bytes(std::span(&address.value, 1)));
}

void HostMemory::clear() {
  for (auto& [at, pinned] : pinned_) pinned.device = 0;
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
  const std::uint64_t before = at - next->first;
  return before <= next->second.bytes && bytes <= next->second.bytes - before;
}

}  // namespace partita::remote::client
