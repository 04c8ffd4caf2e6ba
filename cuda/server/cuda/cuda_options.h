// What a session on a GPU of NVIDIA's is opened with. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lanes/kernel_cursor.h"
#include "lanes/phase_share.h"
#include "server/cuda/driver_abi.h"
#include "server/kernel_times.h"

namespace partita::remote::cuda {

// A part of the GPU's SMs that a session's streams run on.
struct Lane {
  std::function<Result<abi::Stream>(int priority)> create_stream = {};  // non-blocking ones
  int units = 0;                                                        // SMs
};

// The lanes of a session in a process that it shares with others.
struct SharedUse {
  std::vector<Lane> lanes = {};             // the first is where a stream begins
  std::optional<lanes::KernelCursor> cursor = {};  // which lane a kernel runs on; none: the first
  // Instead of a cursor: lanes are all SMs, then those of prefill and of decode, border by border.
  lanes::PhaseUse phases = {};
  std::function<void()> lost = [] {};       // once the context is dead, for everybody who uses it
  // Where given, kernels are timed; told at the end.
  std::function<void(const std::vector<server::TimedKernel>&)> measured = {};
};

struct CudaOptions {
  std::string vendor_library = "libcuda.so.1";
  int device = 0;
  std::uint64_t memory = 0;      // that a session may allocate; 0: what the device has
  std::size_t pinned_ahead = 8;  // buffers made at the start
  std::optional<SharedUse> shared = {};
  // This process is the session's alone: its standard output is what kernels print.
  bool own_process = false;
};

}  // namespace partita::remote::cuda
