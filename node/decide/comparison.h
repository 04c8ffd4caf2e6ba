// Comparison: several planners on one problem, each judged and put under the same simulated traffic
// twice: with paced batches (what Partita serves with) and with full batches (what planning by
// execution latency alone assumes). Pure but for the Watch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/serving.h"
#include "plan/serving.h"
#include "sim/serving.h"

namespace partita::decide {

struct Contestant {
  const Planner* planner = nullptr;
  plan::SloRule rule;
};

// The planners that are compared where nobody names any: those that can plan all of its services.
std::string usual_contestants(const plan::ServingProblem& problem);

// "exact,parvagpu@execution:0.45": names of planners, each with an optional rule; without one it is
// the rule asked for, else the planner's own.
Result<std::vector<Contestant>> parse_contestants(const std::string& flag, const std::string& text,
                                                  const std::optional<plan::SloRule>& asked);

// A planned batch that cannot be filled at the rate of its instance and executed within the SLO.
// Looked for under the execution rule only: it counts on full batches, the queueing rule never
// waits for one.
struct Unfillable {
  std::string service;
  int batch = 0;
  Rps share;         // rate that the instance gets
  Millis fill;       // (batch - 1) / share
  Millis execution;  // of the full batch
  Millis slo;
};

// One contestant's result; no plan, then the reasons.
struct Standing {
  Contestant contestant;
  Made<plan::ServingPlan> made;
  sim::ServingReport paced, full;
  std::vector<Unfillable> unfillable;  // the worst instance of each service, by service order
};

struct CompareOptions {
  long node_budget = PlanOptions{}.node_budget;
  Seconds duration{60};
  std::uint64_t seed = 1;
};

Result<std::vector<Standing>> compare(const plan::ServingProblem& problem,
                                      const std::vector<Contestant>& contestants,
                                      const CompareOptions& options, const Watch& watch);

// The worst instance of every service whose batch misses the SLO by filling and execution alone.
std::vector<Unfillable> unfillable_batches(const plan::ServingPlan& plan);

}  // namespace partita::decide
