// Fits performance laws (law.h) to measurements: robust least squares on the logarithm of the
// throughput for the eight speed coefficients, and for memory the two coefficients under which most
// measured combinations are rightly told to run or not to run. Deterministic; a fit of 225 points
// takes milliseconds.
#pragma once

#include <vector>

#include "base/result.h"
#include "hw/gpu_model.h"
#include "profile/law.h"
#include "profile/workload_profile.h"

namespace partita::profile {

// The law of a workload measured on the plain MIG profiles of `gpu`; coefficients have five
// significant digits. Learns from the points and from what did not run, and from nothing else: a
// combination that was never tried may run or not. Without a row that did not run and without
// measured memory, memory stays unknown. Few points leave coefficients near the starting guess.
// bad_input: no points, or sizes that the GPU lacks (see partition()).
Result<PerformanceLaw> fit(const WorkloadProfile& profile, const hw::GpuModel& gpu);

// How well a law tells what runs: combinations that were tried, and how many of them are told
// rightly.
struct MemoryScore {
  int rows = 0;
  int right = 0;
};
Result<MemoryScore> memory_score(const PerformanceLaw& law, const WorkloadProfile& profile,
                                 const hw::GpuModel& gpu);

// Relative errors |predicted / measured - 1| of the throughput of every point under the law.
Result<std::vector<double>> errors(const PerformanceLaw& law, const WorkloadProfile& profile,
                                   const hw::GpuModel& gpu);

// The same with every point predicted by the law fitted to all others.
Result<std::vector<double>> leave_one_out(const PerformanceLaw& law, const WorkloadProfile& profile,
                                          const hw::GpuModel& gpu);

// Points that measured more than kSuspect times the law's throughput. Most often a process had run
// out of memory there and was counted all the same: 3 x 1353 req/s, where two processes reach 2707
// together.
inline constexpr double kSuspect = 1.25;
Result<std::vector<ProfilePoint>> suspects(const PerformanceLaw& law,
                                           const WorkloadProfile& profile, const hw::GpuModel& gpu);

// The value below which `share` (0..1) of the values lie; 0 for no values.
double quantile(std::vector<double> values, double share);

}  // namespace partita::profile
