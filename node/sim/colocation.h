// Co-location: several workers share one GPU; each serves its next request as soon as the last one
// is done, kernel after kernel, each on the mask that a policy gives it when it starts and keeps to
// its end. A fluid model: between two events every running kernel proceeds at a constant rate.
//
// A mask of M units in k clusters has E = k x (the fewest units in one of them) effective units, as
// under a dispatcher that splits work-groups equally (dispatch.h). A kernel that could use N, the
// fewest on which it is as fast as on all, uses U = min(N, E) and demands U / M of each. A unit
// whose demands sum to more than 1 serves each in proportion; what is served of E is served of U.
// The rate is 1 / (time on the units served x (1 + gamma x what the others demand of a unit of the
// mask, on average)). Power is static_w and unit_w per busy unit. All of these are a model's
// parameters, not measurements.
//
// Measured is, where a profile has it, what kernels do to each other on units of their own, which
// share the memory, caches and the chip's power. While others keep a share w of the units busy that
// a kernel does not use, pressing on the memory by p (both averages over these units, the kernels'
// `presses` weighted by their busy units), it takes 1 + w (c - 1) + p (r - c) times as long, with c
// and r the measured times beside computing and reading neighbours against that alone: nothing
// where w is 0, c beside what only computes, r beside what reads as the neighbour did. As Bubble-Up
// (Mars 2011) has it, one's sensitivity and the others' pressure are measured apart. And a kernel
// begins no sooner than its gap after the one before it; the gap grows with the busy units of
// others, in proportion to what was measured.
//
// Same input and seed, same report and log hash. Limits: kMaxKernelEvents events; streams of
// different workers never share a queue. Times in microseconds unless named otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hw/topology.h"
#include "profile/kernel_profile.h"

namespace partita::sim {

inline constexpr long kMaxKernelEvents = 50'000'000;

// The mask of a worker's kernel, given how many kernels run on each unit; none: it waits until some
// kernel ends and is asked again.
using MaskPolicy = std::function<std::optional<hw::UnitMask>(std::size_t worker, std::size_t kernel,
                                                             const std::vector<int>& running)>;

struct ColocationOptions {
  double duration_s = 2;  // measured
  double warmup_s = 0.2;  // before; not measured
  double gamma = 0.15;    // of contention on shared units
  double launch_us = 0;   // before every kernel
  double switch_us = 5;   // a kernel on another mask than its predecessor: the barrier
  double mask_us = 0;     // as well, where the worker has no stream with that mask: setting it
  int streams = 7;        // masks that a worker keeps streams for, the least recent one goes
  double spread = 0.05;   // kernels take uniformly within +- that share, [0, 1)
  double static_w = 15;   // of the GPU
  double unit_w = 4.75;   // of a busy unit
  std::uint64_t seed = 1;
};

struct WorkerReport {
  std::string name;
  long requests = 0;  // ended while measured
  double rps = 0;
  double mean_ms = 0, p95_ms = 0;  // 0 without requests
  double switches = 0;             // of the mask, per request
  bool operator==(const WorkerReport&) const = default;
};

struct ColocationReport {
  std::vector<WorkerReport> workers;
  double rps = 0;
  double busy_units = 0;       // on average
  double energy_j = 0;         // while measured
  double joules_each = 0;      // per request; 0 without requests
  long waits = 0, events = 0;  // kernels that a policy let wait; events in all
  std::uint64_t log_hash = 0;
  bool operator==(const ColocationReport&) const = default;
};

// Simulates the workers. Refused with an Error: no worker, a worker without kernels or of another
// GPU, a policy that lets everybody wait, gives an empty mask, units that the GPU has not or none
// of some die, too many events.
Result<ColocationReport> simulate_colocation(const hw::Topology& topology,
                                             const std::vector<profile::ModelKernels>& workers,
                                             const MaskPolicy& policy,
                                             const ColocationOptions& options);

// What a kernel takes on a number of units that need not be whole: its speed lies straight
// between those on whole ones and is in proportion below one.
double time_on(const profile::KernelProfile& kernel, double units);

}  // namespace partita::sim
