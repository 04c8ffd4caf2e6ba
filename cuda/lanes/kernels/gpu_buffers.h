// GpuBuffers: the buffers of a graph on a GPU. A buffer goes there on the lane of the first kernel
// that uses it, before that kernel; kernels of other lanes wait for it by an event. One that is
// wanted back comes behind its last kernel. All of it is queued: the host waits for nothing.
// Thread rule: one thread. Limits: memory of host and device for all buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "device/lane_driver.h"
#include "device/lane_memory.h"

namespace partita::carry {

class GpuBuffers {
 public:
  explicit GpuBuffers(device::LaneMemory& memory) : memory_(memory) {}

  // One more; `back`: it is wanted back.
  Result<void> add(std::size_t bytes, bool back);
  std::uint64_t address(std::size_t buffer) const { return buffers_[buffer].device; }
  // What it is at the begin, and at the end where it is wanted back.
  std::span<std::byte> host(std::size_t buffer) const { return buffers_[buffer].host; }

  // A run begins in which each buffer is used by so many kernels.
  void begin(const std::vector<int>& kernels);
  // What a kernel needs, each once, before it on its lane.
  Result<void> bring(device::LaneDriver& driver, int lane, const std::vector<std::size_t>& needed);
  // The kernel has ended.
  Result<void> leave(device::LaneDriver& driver, int lane, const std::vector<std::size_t>& needed);

 private:
  struct Buffer {
    std::span<std::byte> host;
    std::uint64_t device = 0;
    bool back = false;
    int kernels = 0;  // that have not ended
    int lane = -1;    // that it goes there on; -1: it has not begun to
    int event = -1;   // behind that, until a kernel has ended that used it
  };
  device::LaneMemory& memory_;
  std::vector<Buffer> buffers_;
};

}  // namespace partita::carry
