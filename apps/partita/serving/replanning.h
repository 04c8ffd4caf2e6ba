// Replanning: from what runs now to a plan that changes little, for `partita plan --current`. Reads
// the current state in either of its forms, lets the judge pass the plan, and prints what changes
// and the trade-off between GPUs and moves.
#pragma once

#include <optional>
#include <string>

#include "context.h"
#include "forms/serving_forms.h"
#include "serving/planning.h"
#include "planners/serving/incremental.h"

namespace partita::cli {

struct ReplanFlags {
  std::string current;  // path; empty: plan from scratch
  int max_moves = -1;   // -1: as many as needed
};

// Adds --current and --max-moves.
void add_replan_flags(CLI::App& command, ReplanFlags& flags);

// What runs now, from a ServingPlan or a NodeState document. GPUs that are lost, and instances of
// which nobody knows the service, come back as such: nothing of them can be kept.
Result<plan::ServingPlan> load_current(Context& context, const std::string& path,
                                       const hw::Catalogue& catalogue);

using planners::serving::IncrementalOutcome;

// Plans incrementally and asks the judge, like make_plan.
Result<IncrementalOutcome> make_plan_again(Context& context, const ReplanFlags& flags,
                                           const plan::ServingProblem& problem,
                                           const hw::Catalogue& catalogue, long node_budget);

// What the plan's document says of it, in the key `incremental`.
forms::PlanChanges changes_of(const IncrementalOutcome& outcome);

// For people: what is kept, moved, created and removed, and the curve.
std::string changes_text(const IncrementalOutcome& outcome);

}  // namespace partita::cli
