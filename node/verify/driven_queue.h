// The judge's own look at a queue that has no formula: the dispatcher that serves real requests is
// driven by random arrivals, and the late ones are counted. Deterministic; shares nothing with the
// planners' model but the dispatcher's rule itself.
#pragma once

#include <vector>

#include "base/draws/poisson_times.h"
#include "base/units.h"
#include "plan/arrivals.h"
#include "plan/dispatcher.h"

namespace partita::verify {

struct DrivenQueue {
  plan::DispatchPolicy policy;
  Rps load;
  Millis slo;
  double percentile = 99;
  plan::Arrivals arrivals = plan::PoissonArrivals{};
};

struct DrivenVerdict {
  bool stable = true;       // the load is less than full batches on all processes carry
  bool holds = true;        // no more are late than the percentile allows
  double late = 0;          // share of the requests that were
  bool by_formula = false;  // ... or that would be in the long run, so near saturation
  Millis latency{0};        // percentile of those seen
};

// Arrivals of rate 1 for all queues that a judge drives.
class UnitArrivals : public PoissonTimes {
 public:
  UnitArrivals() : PoissonTimes(0x1ead) {}
};

// Requests/s of full batches on all processes.
Rps full_rate(const plan::DispatchPolicy& policy);

// Runs until the count is clear, at most kMostDriven requests, or as many as the queue takes to
// forget its start, or to show what the percentile allows, when that is more. Near saturation no
// run is long enough: there the exponential tail of the queue is asked as well. What is comfortably
// within the allowance by Lundberg's inequality for the backlog (P(backlog > x) <= exp(-theta x))
// is looked at for kFewestDriven only.
inline constexpr long kFewestDriven = 3'000;
inline constexpr long kMostDriven = 300'000;
inline constexpr long kLongestDriven = 4'000'000;  // for percentiles whose misses are rare
// Of bursts and recordings of which more than `most_told` requests tell, what stands for them is
// played whole and counted by its weight (plan/telling.h).
DrivenVerdict drive(const DrivenQueue& queue, UnitArrivals& units,
                    long most_told = plan::kMostTelling);

}  // namespace partita::verify
