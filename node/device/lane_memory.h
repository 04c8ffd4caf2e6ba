// LaneMemory: what LaneDrivers of GPUs have beyond their door: memory, copies in the order of a
// lane, and code to find kernels in. Found by LaneDriver::memory(). All of it lives as long as the
// driver.
// Thread rule: that of the LaneDriver. Errors: as the door; `limit` where memory is full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita::device {

// Bytes of host_bytes() and of allocate(), copied into the device or out of it.
struct LaneCopy {
  std::span<std::byte> host;
  std::uint64_t device = 0;
  bool in = true;
};

enum class GpuCode {
  ptx,  // of NVIDIA's GPUs
  hip,  // of AMD's: HIP's source, or a code object
};

class LaneMemory {
 public:
  virtual ~LaneMemory() = default;
  // Memory of the device, whatever it holds; its address.
  virtual Result<std::uint64_t> allocate(std::size_t bytes) = 0;
  // Memory of this process that the device copies from and to while others work.
  virtual Result<std::span<std::byte>> host_bytes(std::size_t bytes) = 0;
  // Queues copies on a lane, as one item, and returns at once. An error may leave some of them.
  virtual Result<void> copy(int lane, const std::vector<LaneCopy>& copies) = 0;
  // What load() takes.
  virtual GpuCode code() const = 0;
  // Loads code, once for all lanes; its number. What the GPU cannot run is refused in the
  // library's words.
  virtual Result<int> load(const std::string& code) = 0;
  // DeviceKernel::function of a kernel that may have so many bytes of dynamic shared memory.
  virtual Result<void*> find_kernel(int loaded, const std::string& name, std::uint32_t shared) = 0;
};

}  // namespace partita::device
