// A plan with groups of GPUs on the GPUs of another: which of them becomes which, so that most of
// what runs stays. Groups first: a group of the same service and size stays where it is, with the
// same segment before any other; the rest take GPUs in a row of one node on which the least runs.
// All other GPUs are matched as plan/changes.h says. Pure.
#pragma once

#include <optional>
#include <vector>

#include "decide/serving.h"
#include "plan/serving.h"

namespace partita::decide {

// `plan`, of the fleet, with the indices of GPUs of `current`, and further ones where it has more
// or where groups find no node's GPUs in a row among them, as far as the fleet has so many. Where
// that is not enough all groups begin anew; where that is not either, `plan` as it is.
plan::ServingPlan in_place_of(const plan::ServingPlan& current, plan::ServingPlan plan,
                              const std::vector<plan::FleetEntry>& fleet);

// Planned from nothing, with the fewest GPUs and compute slices, on the GPUs on which most of it
// runs. As make_plan_again otherwise, which counts instances that it makes before slices.
Result<MadeAgain> make_plan_in_place(const plan::ServingProblem& problem,
                                     const plan::ServingPlan& current, std::optional<int> max_moves,
                                     const PlanOptions& options);

}  // namespace partita::decide
