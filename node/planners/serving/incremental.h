// Incremental planning: a new plan for changed rates or SLOs that leaves running what can stay.
//
// What is kept, restarted, moved, created and removed: plan/changes.h. Minimised one after the
// other: GPUs (fleets of several models: cost), instances to be created (moved + created),
// restarted ones, compute slices. The plan's GPUs have the indices that plan::match_gpus gives
// them, so that whoever matches it with what runs finds the same.
//
// Exact where `proven` says so: the creations of a number of GPUs are compared with a Lagrangian
// bound over covers and packing facets, and small cases are searched exhaustively; the rest is
// local search under node budgets. Restarts and slices are minimised for the creations found.
// Services that keep apart, and fleets of several models, are searched but rarely proven. Current
// instances are kept only on MIG profiles that the planner itself would use (points.h).
#pragma once

#include <optional>
#include <vector>

#include "plan/changes.h"
#include "planners/serving/planner.h"

namespace partita::planners::serving {

struct IncrementalOptions {
  Options base;                  // node_budget is that of the exact planner
  std::optional<int> max_moves;  // fewest GPUs among plans that create at most so many instances
  long move_budget = 400'000;    // placements tried to lower creations, all GPU numbers together
};

using plan::Changes;
using plan::changes_between;

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
                               const plan::ServingPlan& current, const IncrementalOptions& options);

}  // namespace partita::planners::serving
