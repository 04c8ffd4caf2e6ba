#include "client/host_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "client/session.h"

namespace partita::remote::client {
namespace {

// So that reaching over the end of one shows.
constexpr std::uint64_t kGap = kHostPage;

std::uint64_t in_units(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Block HostMemory::on_device(std::uint64_t address, const Pinned& pinned) const {
  return {address, in_units(pinned.bytes, core_.arena.granule)};
}

// Pages at addresses that the device keeps free.
std::optional<std::uint64_t> HostMemory::make_pages(Lock& lock, std::uint64_t bytes) {
  const std::uint64_t granule = core_.arena.granule;
  const std::uint64_t length =
      in_units(bytes + (granule < kHostPage ? kGap : 0), std::max(granule, kHostPage));
  const auto address = all_.memory.reserve(lock, length, kHostPage);
  if (!address) return std::nullopt;
  const std::uint64_t end = in_units(*address + bytes, kHostPage);
  if (map_pages(*address, end)) {
    pinned_[*address] = {.bytes = bytes, .reserved = length};
    ++unnamed_;
    return *address;
  }
  all_.memory.arena().unreserve(*address, length);
  return std::nullopt;
}

Got<void*> HostMemory::allocate(std::uint64_t bytes) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 46;
  if (bytes > kMost) return refused(kMemoryAllocation);
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (const auto made = make_pages(lock, std::max<std::uint64_t>(bytes, 1))) {
    // The device may remember the address from before.
    if (*made < named_end_)
      if (const auto there = device_address(lock, *made); !there) return refused(there.error());
    return reinterpret_cast<void*>(*made);
  }
  void* memory = std::aligned_alloc(kHostPage, in_units(bytes, kHostPage));
  if (memory == nullptr) return refused(kMemoryAllocation);
  if (!std::exchange(said_, true))
    std::fputs(
        "partita remote: pinned memory: the program has something else at the addresses that"
        " the device has for it; kernels find it only by their parameters\n",
        stderr);
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
  const auto [address, pinned] = *found;
  pinned_.erase(found);
  if (pinned.device != 0) all_.managed.unmap(lock, pinned.device);
  if (pinned.reserved > 0) return release_pages(lock, address, pinned);
  if (!registered) std::free(memory);
  return pinned.device == 0 ? kOk : all_.memory.release(lock, pinned.device);
}

Status HostMemory::release_pages(const Lock& lock, std::uint64_t address, const Pinned& pinned) {
  unmap_pages(address, in_units(address + pinned.bytes, kHostPage));
  Arena& addresses = all_.memory.arena();
  const bool named = addresses.unmap(on_device(address, pinned));
  addresses.unreserve(address, pinned.reserved);
  if (named) return core_.link->post(lock, Free{.address = {address}});
  --unnamed_;
  return kOk;
}

Status HostMemory::release(void* memory) { return memory == nullptr ? kOk : unpin(memory, false); }

Status HostMemory::enter(void* memory, std::uint64_t bytes) {
  if (memory == nullptr || bytes == 0) return kInvalidValue;
  constexpr Status kAlreadyRegistered = 712;
  const Lock lock(core_.mutex);
  const Pinned pinned{.bytes = bytes, .registered = true};
  const bool fresh = pinned_.emplace(reinterpret_cast<std::uintptr_t>(memory), pinned).second;
  return fresh ? kOk : kAlreadyRegistered;
}

Status HostMemory::leave(void* memory) { return unpin(memory, true); }

// On the device, exactly at the reserved addresses.
Got<std::uint64_t> HostMemory::make_room(Lock& lock, std::uint64_t address, const Pinned& pinned) {
  if (pinned.reserved == 0) return all_.memory.allocate(lock, pinned.bytes, kHostPage);
  const Block there = on_device(address, pinned);
  if (!all_.memory.arena().map(there)) return refused(kMemoryAllocation);
  const Alloc alloc{.address = {address}, .bytes = there.bytes};
  if (const Status status = core_.link->post(lock, alloc); status != kOk) return refused(status);
  --unnamed_;
  named_end_ = std::max(named_end_, address + pinned.reserved);
  return address;
}

std::optional<std::uint64_t> HostMemory::mapped(const Lock& lock, const void* memory,
                                                std::uint64_t bytes) {
  if (pinned_.empty() || !is_pinned(lock, memory, bytes)) return std::nullopt;
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  const auto& [begin, pinned] = *std::prev(pinned_.upper_bound(at));
  if (pinned.device == 0) return std::nullopt;
  return pinned.device + (at - begin);
}

Got<std::uint64_t> HostMemory::device_address(Lock& lock, std::uint64_t host) {
  // The device gets the bytes now: those first that still come for the program.
  if (!mapped(lock, reinterpret_cast<const void*>(host), 0) && all_.streams.writes() &&
      !all_.captures.any()) {
    lock.unlock();
    const Status status = all_.streams.synchronise();
    lock.lock();
    if (status != kOk) return refused(status);
  }
  auto next = pinned_.upper_bound(host);
  if (next == pinned_.begin()) return refused(kInvalidValue);
  Pinned& pinned = (--next)->second;
  if (host - next->first > pinned.bytes) return refused(kInvalidValue);
  if (pinned.device == 0) {
    const auto address = make_room(lock, next->first, pinned);
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

Status HostMemory::map_named(Lock& lock, std::uint64_t to, Bytes bytes) {
  constexpr std::size_t kWord = 8, kAtOnce = 512 * kWord;
  bytes = bytes.subspan(std::min<std::size_t>((kWord - to % kWord) % kWord, bytes.size()));
  while (unnamed_ > 0 && bytes.size() >= kWord) {
    const Bytes piece = bytes.first(std::min(bytes.size() / kWord * kWord, kAtOnce));
    bytes = bytes.subspan(piece.size());
    const auto word = [&](std::size_t at) {
      std::uint64_t value = 0;
      std::memcpy(&value, piece.data() + at, kWord);
      return value;
    };
    bool any = false;
    for (std::size_t at = 0; at < piece.size(); at += kWord)
      any |= word(at) - core_.arena.begin < core_.arena.bytes;
    for (std::size_t at = 0; any && at < piece.size(); at += kWord) {
      const std::uint64_t value = word(at);
      if (value - core_.arena.begin >= core_.arena.bytes) continue;
      if (!is_pinned(lock, reinterpret_cast<const void*>(value), 0)) continue;
      if (const auto there = device_address(lock, value); !there) return there.error();
    }
  }
  return kOk;
}

Status HostMemory::map_address(Lock& lock, DevicePointer& address) {
  return map_parameters(lock, std::as_writable_bytes(std::span(&address.value, 1)));
}

std::vector<Block> HostMemory::blocks_on_device(const Lock&) const {
  std::vector<Block> there;
  for (const auto& [at, pinned] : pinned_)
    if (pinned.device != 0) there.push_back({pinned.device, pinned.bytes});
  return there;
}

void HostMemory::clear() {
  unnamed_ = named_end_ = 0;
  for (auto& [at, pinned] : pinned_) {
    pinned.device = 0;
    if (pinned.reserved > 0) ++unnamed_;
  }
}

void HostMemory::reserve_again(Arena& fresh) {
  for (const auto& [at, pinned] : pinned_)
    if (pinned.reserved > 0) fresh.reserve_at({at, pinned.reserved});
}

bool HostMemory::has_one_address(const void* memory) {
  const Lock lock(core_.mutex);
  return is_pinned(lock, memory, 1) &&
         std::prev(pinned_.upper_bound(reinterpret_cast<std::uintptr_t>(memory)))->second.reserved >
             0;
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
