// GpuMemory: the LaneMemory of a GreenCtxDriver, which gives its copies to the lanes' streams.
// Libraries, kernels and memory belong to the primary context, so any mask fits. Ends after what
// uses it. Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "device/lane_memory.h"
#include "drivers/green_ctx/primary_context.h"

namespace partita::drivers::green_ctx {

// Gives the stream of a lane one more item.
using GiveLane = std::function<Result<void>(int lane, std::string_view call,
                                            const std::function<abi::Return(abi::Stream)>& work)>;

class GpuMemory final : public device::LaneMemory {
 public:
  GpuMemory(std::shared_ptr<const PrimaryContext> gpu, GiveLane give)
      : gpu_(std::move(gpu)), give_(std::move(give)) {}
  ~GpuMemory() override;
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  Result<std::uint64_t> allocate(std::size_t bytes) override;
  Result<std::span<std::byte>> host_bytes(std::size_t bytes) override;
  Result<void> copy(int lane, const std::vector<device::LaneCopy>& copies) override;
  device::GpuCode code() const override { return device::GpuCode::ptx; }
  Result<int> load(const std::string& code) override;
  // Loads it onto the GPU, too: later that might wait for kernels that run.
  Result<void*> find_kernel(int loaded, const std::string& name, std::uint32_t shared) override;

 private:
  const std::shared_ptr<const PrimaryContext> gpu_;
  const GiveLane give_;
  std::mutex mutex_;  // of what follows
  std::vector<abi::DevicePointer> device_;
  std::vector<void*> host_;
  std::vector<abi::Library> libraries_;
};

}  // namespace partita::drivers::green_ctx
