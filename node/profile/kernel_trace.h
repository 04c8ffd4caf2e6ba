// Kernels that a vendor's profiler saw, in the order in which they began, and the request that they
// repeat. Readers of rocprof's CSV here, of Nsight Systems' export in profile/nsys. Pure; limit:
// kMaxTraceKernels kernels.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::profile {

inline constexpr std::size_t kMaxTraceKernels = 5'000'000;

struct TracedKernel {
  std::string name = {};
  double begin_us = 0, us = 0;
  bool operator==(const TracedKernel&) const = default;
};
using KernelTrace = std::vector<TracedKernel>;

// What rocprof (KernelName, BeginNs, EndNs) and rocprofv3 (Kernel_Name, Start_Timestamp,
// End_Timestamp) write; other columns are passed over. bad_input with FILE:LINE.
Result<KernelTrace> parse_rocprof(const std::string& file, std::string_view text);

// Sorts by their begin.
void in_order(KernelTrace& trace);

// The kernels of the request that the trace repeats to its end (base/repeats.h), each with the
// median of its times on `units` units, as rows of a kernel CSV; bad_input where it repeats none.
Result<std::string> traced_request_csv(const std::string& file, const KernelTrace& trace,
                                       int units);

}  // namespace partita::profile
