// HostKernels: the ProbeKernels of threads. Independent of any dispatcher: the unit is what the
// thread calls itself. Outlives the driver that runs its kernels. Thread rule: one thread makes
// kernels and reads notes.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "device/probe_kernels.h"

namespace partita::drivers::cpu_mask {

class HostKernels final : public device::ProbeKernels {
 public:
  Result<device::Kernel> noting(int number, std::int64_t groups, bool closed) override;
  void open(int number) override;
  std::vector<device::GroupNote> notes(int number) override;
  Result<device::Kernel> computing(std::int64_t groups, std::int64_t rounds) override;
  Result<device::Kernel> reading(std::int64_t groups, std::int64_t bytes) override;
  Result<std::optional<std::int64_t>> free_memory() override { return std::nullopt; }

 private:
  struct Cell {
    std::atomic<std::size_t> runs = 0;
    device::GroupNote note;
  };
  struct Notes {
    std::vector<Cell> groups;
    std::atomic<bool> open = true;
  };
  Notes& at(int number) { return kernels_[static_cast<std::size_t>(number)]; }

  std::deque<Notes> kernels_;
  std::atomic<std::int64_t> stamps_ = 0;
  std::shared_ptr<std::vector<std::uint64_t>> memory_;  // that reading kernels read; made on demand
};

}  // namespace partita::drivers::cpu_mask
