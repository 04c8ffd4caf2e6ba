// Incremental planning: a new plan for changed rates or SLOs that leaves running what can stay.
//
// An instance of the new plan is *kept* when the current plan has one with the same GPU (index and
// model), MIG profile, start and service, batch and processes included; *restarted* when only
// batch or processes differ; *moved* when it must be created for a service that ran before, and
// *created* when its service is new. A current instance without a kept or restarted successor is
// *removed*. Minimised one after the other: GPUs (fleets of several models: cost), instances to be
// created (moved + created), restarted ones, compute slices.
//
// Exact where `proven` says so: the creations of a number of GPUs are compared with a Lagrangian
// bound over covers and packing facets, and small cases are searched exhaustively; the rest is
// local search under node budgets. Restarts and slices are minimised for the creations found.
// Services that keep apart, and fleets of several models, are searched but rarely proven. Current
// instances are kept only on MIG profiles that the planner itself would use (points.h).
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/planner.h"

namespace partita::planners::serving {

struct IncrementalOptions {
  Options base;                  // node_budget is that of the exact planner
  std::optional<int> max_moves;  // fewest GPUs among plans that create at most so many instances
  long move_budget = 400'000;    // placements tried to lower creations, all GPU numbers together
};

struct Changes {
  int kept = 0, restarted = 0, moved = 0, created = 0, removed = 0;
  bool operator==(const Changes&) const = default;
};

// A point of the trade-off curve.
struct CurvePoint {
  int gpus = 0;
  double cost = 0;      // summed price of that many GPUs
  int moves = 0;        // fewest instances to be created that were found: moved + created
  int lower_bound = 0;  // no plan on so many GPUs creates fewer
  bool proven() const { return moves == lower_bound; }
  bool operator==(const CurvePoint&) const = default;
};

struct IncrementalOutcome {
  Outcome outcome;
  Changes changes;                // of outcome.plan against the current plan
  std::vector<CurvePoint> curve;  // ascending GPUs, strictly: from the fewest to the laziest plan's
};

// Only the GPUs and instances of `current` matter; instances of unknown services and at illegal
// places are not kept. Without a plan the curve is empty, or shows what more moves would give.
IncrementalOutcome incremental(const plan::ServingProblem& problem,
                               const plan::ServingPlan& current,
                               const IncrementalOptions& options);

// What changes from one plan to the next, by the definition above. Of several equal instances of
// one GPU each is kept once. MIG profiles are compared by name.
Changes changes_between(const plan::ServingPlan& current, const plan::ServingPlan& next);

}  // namespace partita::planners::serving
