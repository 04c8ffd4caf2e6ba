// Serving plans: choose a planner by name, let it plan -- from scratch, or from what runs now --
// and let the judge pass its plan before anyone sees it. Pure but for the Watch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/made.h"
#include "plan/reason.h"
#include "planners/serving/incremental.h"
#include "planners/serving/planner.h"

namespace partita::decide {

using planners::serving::Planner;

// The names of all planners, in listing order.
std::vector<std::string> planner_names();

// The planner with this name; the refusal names `flag` and the nearest planner.
Result<const Planner*> find_planner(const std::string& flag, const std::string& name);

// The rule that a planner plans by: the one asked for, else its own, else the standard one.
plan::SloRule rule_for(const Planner& planner, const std::optional<plan::SloRule>& asked);

struct PlanOptions {
  long node_budget = planners::serving::Options{}.node_budget;
  Watch watch = {};
  // What planner and judge, each for itself, found of pools before: of whoever plans again and
  // again. They never change an answer; may be null.
  planners::serving::PoolMemo* planners_pools = nullptr;
  planners::serving::TokenOracle* planners_tokens = nullptr;  // of language models
  verify::PoolMemo* judges_pools = nullptr;
  int most_gpus = planners::serving::kMostPlannedGpus;  // as planners take it
};

// Runs a planner and the judge. A plan that the judge refuses is our bug: an Error that says why.
Result<Made<plan::ServingPlan>> make_plan(const Planner& planner,
                                          const plan::ServingProblem& problem,
                                          const PlanOptions& options);

// A plan that changes little of what runs, with what it changes.
struct MadeAgain {
  Made<plan::ServingPlan> made;
  planners::serving::Changes changes;
  std::vector<planners::serving::CurvePoint> curve;
};

// As make_plan, from what runs now. Without `max_moves` as many instances may be created as needed.
// With sets of models, and GPUs that may be lost, it is make_plan_in_place.
Result<MadeAgain> make_plan_again(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, std::optional<int> max_moves,
                                  const PlanOptions& options);

// Planned from nothing, with the fewest GPUs and compute slices, on the GPUs on which most of it
// runs (planners/serving/in_place.h); make_plan_again counts instances that it makes before slices.
Result<MadeAgain> make_plan_in_place(const plan::ServingProblem& problem,
                                     const plan::ServingPlan& current, std::optional<int> max_moves,
                                     const PlanOptions& options);

// Why a plan is too large for so many GPUs, as data; empty when it is not.
std::vector<plan::Reason> too_many_gpus(const plan::ServingPlan& plan, int max_gpus);

}  // namespace partita::decide
