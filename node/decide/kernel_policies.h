// Policies of co-location: who gets which SMs or CUs, from the planners of masks to a
// sim::MaskPolicy. A policy keeps what it needs; single-threaded.
//   default-stream  every kernel of all workers in one queue on all units, one at a time, first
//               come first served: nothing is shared in space. A kernel comes when its worker's
//               last one has ended (the baseline of ECLIP; temporal sharing)
//   mps         every kernel on all units, shared
//   static      equal shares of the units per worker, apart
//   model       per worker the knee of its model, fixed; may overlap where they do not all fit
//   krisp-o     per kernel its least units, the least busy ones, however many others use
//   krisp-i     per kernel its least units that are idle: takes what is granted for as long as the
//               kernel runs, waits while nothing is idle (the paper leaves both open)
//   isolated    as krisp-i, with the number of clusters chosen so that most units are effective
//   critical    per kernel the units that spend least unit-time with the model within the
//               tolerance; placed as krisp-o
//   eclip       per kernel the units of the joint plan, on masks made before the run
//   eclip:N     the same with at most N changes of the number of units, planned here
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hw/topology.h"
#include "plan/kernels.h"
#include "profile/kernel_profile.h"
#include "sim/colocation.h"

namespace partita::decide {

// The words above, in that order, without eclip:N.
const std::vector<std::string>& kernel_policy_words();

// N of eclip:N; none for other words and for N that are no switches (kMaxSwitches).
std::optional<int> switches_of(const std::string& policy);

struct PolicyInputs {
  const hw::Topology& topology;
  const std::vector<profile::ModelKernels>& workers;
  int atom = 1;                              // units that can only be masked together
  std::vector<int> sizes;                    // hw::mask_sizes
  double tolerance = 0.05;                   // of knee, least units and critical
  std::vector<std::vector<int>> plan_units;  // eclip: per worker and kernel; empty: planned here
  std::vector<int> configs;                  // eclip: units that a kernel may have
  int switches = 14;                         // eclip: per worker and request
};

// The policy of that name, which must be one of kernel_policy_words() or eclip:N. It refers to the
// inputs' topology, which must outlive it. Refused where eclip cannot be planned.
Result<sim::MaskPolicy> kernel_policy(const std::string& name, const PolicyInputs& inputs);

}  // namespace partita::decide
