#include "server/cuda/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace partita::remote::cuda {

using server::Answered;

DeviceMemory::~DeviceMemory() {
  const DriverApi& api = context_.api();
  for (const auto& [address, memory] : mapped_) {
    api.cuMemUnmap(address, memory.bytes);
    api.cuMemRelease(memory.handle);
  }
  if (arena_ != 0) api.cuMemAddressFree(arena_, arena_bytes_);
}

Result<void> DeviceMemory::reserve(server::DeviceSnapshot& device) {
  constexpr std::uint64_t kMostArena = std::uint64_t{1} << 40;
  const DriverApi& api = context_.api();
  const abi::AllocationProperties of = context_.memory();
  std::size_t granule = 0;
  if (auto ok = context_.needed("cuMemGetAllocationGranularity",
                                api.cuMemGetAllocationGranularity(&granule, &of, 0));
      !ok)
    return ok;
  arena_bytes_ = std::min(device.total_memory * 4, kMostArena) / granule * granule;
  abi::DevicePointer base = 0;
  if (auto ok = context_.needed("cuMemAddressReserve",
                                api.cuMemAddressReserve(&base, arena_bytes_, 0, 0, 0));
      !ok)
    return ok;
  arena_ = base;
  device.arena = arena_;
  device.arena_bytes = arena_bytes_;
  device.granule = granule;
  return {};
}

Answered<void> DeviceMemory::allocate(std::uint64_t address, std::uint64_t bytes) {
  const DriverApi& api = context_.api();
  const abi::AllocationProperties of = context_.memory();
  Mapped memory{bytes, 0};
  if (const abi::Return code = api.cuMemCreate(&memory.handle, bytes, &of, 0); code != 0)
    return context_.refused("cuMemCreate", code);
  if (const abi::Return code = api.cuMemMap(address, bytes, 0, memory.handle, 0); code != 0) {
    api.cuMemRelease(memory.handle);
    return context_.refused("cuMemMap", code);
  }
  const abi::AccessDescription access{of.location, abi::kReadWrite};
  if (const abi::Return code = api.cuMemSetAccess(address, bytes, &access, 1); code != 0) {
    api.cuMemUnmap(address, bytes);
    api.cuMemRelease(memory.handle);
    return context_.refused("cuMemSetAccess", code);
  }
  mapped_.emplace(address, memory);
  return {};
}

void DeviceMemory::release(std::uint64_t address) {
  const auto found = mapped_.find(address);
  CHECK(found != mapped_.end());
  context_.api().cuMemUnmap(address, found->second.bytes);
  context_.api().cuMemRelease(found->second.handle);
  mapped_.erase(found);
}

PinnedBuffers::~PinnedBuffers() {
  for (Pinned buffer : all_) context_.api().cuMemFreeHost(buffer);
}

Answered<void> PinnedBuffers::make(std::size_t count) {
  while (free_.size() < count) {
    const Answered<Pinned> buffer = one_more();
    if (!buffer) return tl::unexpected(buffer.error());
    free_.push_back(*buffer);
  }
  return {};
}

Answered<Pinned> PinnedBuffers::take() {
  if (free_.empty()) return one_more();
  const Pinned buffer = free_.back();
  free_.pop_back();
  return buffer;
}

Answered<Pinned> PinnedBuffers::one_more() {
  void* host = nullptr;
  if (const abi::Return code =
          context_.api().cuMemHostAlloc(&host, kPinnedBytes, abi::kHostPortable);
      code != 0)
    return context_.refused("cuMemHostAlloc", code);
  all_.push_back(static_cast<Pinned>(host));
  return all_.back();
}

Holds::~Holds() {
  if (words_ != nullptr) context_.api().cuMemFreeHost(words_);
}

Result<void> Holds::open() {
  const DriverApi& api = context_.api();
  void* words = nullptr;
  if (auto ok = context_.needed(
          "cuMemHostAlloc",
          api.cuMemHostAlloc(&words, kMaxHolds * 4, abi::kHostPortable | abi::kHostMapped));
      !ok)
    return ok;
  words_ = static_cast<std::uint32_t*>(words);
  for (std::uint32_t slot = 0; slot < kMaxHolds; ++slot) free_.push_back(slot);
  return context_.needed("cuMemHostGetDevicePointer",
                         api.cuMemHostGetDevicePointer_v2(&words_on_device_, words, 0));
}

Answered<std::uint64_t> Holds::take() {
  if (free_.empty())
    return server::refuse(server::kLaunchOutOfResources,
                          fmt::format("{} functions of the client wait to be called", kMaxHolds));
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  __atomic_store_n(words_ + slot, 0u, __ATOMIC_RELEASE);
  return std::uint64_t{slot} + 1;
}

Answered<void> Holds::wait(abi::Stream stream, std::uint64_t hold) {
  return context_.done("cuStreamWaitValue32",
                       context_.api().cuStreamWaitValue32_v2(
                           stream, words_on_device_ + (hold - 1) * 4, 1, abi::kWaitEqual));
}

// The word is used again only when the stream has seen it: behind the next mark at the latest it
// would be, so slots go round in the order of their use.
void Holds::resume(std::uint64_t hold) {
  CHECK(hold >= 1 && hold <= kMaxHolds);
  const auto slot = static_cast<std::uint32_t>(hold - 1);
  __atomic_store_n(words_ + slot, 1u, __ATOMIC_RELEASE);
  free_.insert(free_.begin(), slot);
}

void Holds::resume_all() {
  for (std::uint32_t i = 0; words_ != nullptr && i < kMaxHolds; ++i)
    __atomic_store_n(words_ + i, 1u, __ATOMIC_RELEASE);
}

}  // namespace partita::remote::cuda
