// Plans for pipelines: which share of a pipeline's SLO each of its steps gets, so that all steps
// together take least. A planner of single services is the oracle: what a step costs at each of a
// grid of shares; of all choices from the grids, whose sums on every way through the graph stay
// within the SLO (times a stretch), the cheapest is found exactly (branch and bound). A percentile
// of a sum is less than the sum of the percentiles, so longer shares are tried first (kStretches)
// and the judge, who times the whole way, says which of them hold.
// The bound on GPUs is the planner's for every step with all that the fastest others leave to it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "decide/made.h"
#include "plan/judged.h"
#include "plan/serving.h"
#include "planners/serving/planner.h"

namespace partita::decide {

bool has_pipelines(const plan::ServingProblem& problem);

// Shares of the SLO, by service that is a step.
using Shares = std::map<std::string, Millis>;
using PlanServices = std::function<planners::serving::Outcome(const plan::ServingProblem&)>;

// How shares are chosen. `equal`: the SLO over the steps of the longest way. `proportional`: to the
// fastest measured batch of each step. Both are for comparisons.
enum class Split { planned, equal, proportional };

inline constexpr double kStretches[] = {3, 2.5, 2.1, 1.8, 1.6, 1.45, 1.3, 1.2, 1.1, 1};
inline constexpr int kSharesOfStep = 16;  // of its grid

// What a step costs at a share; shares ascend, costs fall.
struct ShareCost {
  Millis share;
  double gpcs = 0;
};
struct SplitQuestion {
  std::map<std::string, std::vector<ShareCost>> costs;  // of every step; none empty
  // Ways through graphs: which steps, one behind the other, and how long they may take together.
  struct Way {
    std::vector<std::string> steps;
    Millis most;
  };
  std::vector<Way> ways;
};
// The cheapest choice; of those that cost as much, the one whose tightest way has most room. Empty
// when there is none, or none was found within `budget` nodes of the search.
inline constexpr long kSplitBudget = 2'000'000;
Shares cheapest_split(const SplitQuestion& question, long budget = kSplitBudget);

// What planner and judge, each for itself, found before, as in PlanOptions; may be null.
struct PipelineMemos {
  planners::serving::PoolMemo* planners = nullptr;
  verify::PoolMemo* judges = nullptr;
};

// A plan for services of which some are pipelines, judged.
Result<Made<plan::ServingPlan>> plan_pipelines(const plan::ServingProblem& problem,
                                               const PlanServices& plan_services,
                                               Split split = Split::planned,
                                               double most_stretch = kStretches[0],
                                               PipelineMemos memos = {});

// As a plan that follows needs it: the shares of a pipeline's steps, and what they are of.
plan::PlannedService shares_kept(const plan::PlannedService& row);

// A plan in which every step has the share that `current` says, for pipelines that are as they were
// then: what runs can stay where it is, though other shares might take fewer GPUs. Nothing: they
// are not, or no plan with these shares holds. `plan_services` may start from what runs; the bound
// is that of `from_nothing`.
std::optional<plan::Judged<plan::ServingPlan>> plan_with_shares(const plan::ServingProblem& problem,
                                                                const plan::ServingPlan& current,
                                                                const PlanServices& plan_services,
                                                                const PlanServices& from_nothing,
                                                                PipelineMemos memos = {});

}  // namespace partita::decide
