// HipMemory: the LaneMemory of a HipMaskDriver, which gives its copies to the lanes' streams.
// Giving memory back waits for all lanes, so it is given back at the end alone. Ends after what
// uses it. Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/lane_memory.h"
#include "drivers/hip_mask/hip_library.h"

namespace partita::drivers::hip_mask {

using GiveStream = std::function<Result<void>(abi::Stream)>;
// Gives the stream of a lane one more item.
using GiveLane = std::function<Result<void>(int lane, std::string_view call, const GiveStream&)>;

class HipMemory final : public device::LaneMemory {
 public:
  HipMemory(std::shared_ptr<HipLibrary> library, int device, GiveLane give)
      : library_(std::move(library)), device_(device), give_(std::move(give)) {}
  ~HipMemory() override;
  HipMemory(const HipMemory&) = delete;
  HipMemory& operator=(const HipMemory&) = delete;

  Result<std::uint64_t> allocate(std::size_t bytes) override;
  Result<std::span<std::byte>> host_bytes(std::size_t bytes) override;
  Result<void> copy(int lane, const std::vector<device::LaneCopy>& copies) override;
  device::GpuCode code() const override { return device::GpuCode::hip; }
  // Source is compiled for this GPU first.
  Result<int> load(const std::string& code) override;
  Result<void*> find_kernel(int loaded, const std::string& name, std::uint32_t shared) override;

 private:
  Result<void> use_device() const;

  const std::shared_ptr<HipLibrary> library_;
  const int device_;
  const GiveLane give_;
  std::mutex mutex_;  // of what follows
  std::vector<void*> device_memory_, host_;
  std::vector<abi::Module> modules_;
};

}  // namespace partita::drivers::hip_mask
