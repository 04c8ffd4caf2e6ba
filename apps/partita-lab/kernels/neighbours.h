// Neighbours of a program whose kernels are measured: threads of this process that compute, or read
// memory, until they end, as units that other tenants keep busy would. They have the priority of
// the thread that starts them, and give way as units do.
// Thread rule: one thread.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "base/result.h"
#include "device/lane_driver.h"
#include "device/probe_kernels.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "profile/kernel_profile.h"

namespace partita::cli {

class Neighbours {
 public:
  // On so many units of their own, at least one.
  static Result<std::unique_ptr<Neighbours>> start(int units, profile::Neighbour kind);
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  // Work-groups that they have ended.
  Result<std::int64_t> done();

 private:
  Neighbours() = default;
  void keep_busy(const device::Kernel& kernel);

  std::unique_ptr<device::ProbeKernels> kernels_;
  std::unique_ptr<drivers::cpu_mask::CpuMaskDriver> driver_;
  int lane_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread feeder_;  // queues their kernels
};

// By what neighbours slow down those that read memory themselves: how many times as long these take
// on `units` beside others on `beside` units.
struct MemoryDisturbance {
  double by_computing = 1, by_reading = 1;
};
Result<MemoryDisturbance> measure_memory_disturbance(int units, int beside);

}  // namespace partita::cli
