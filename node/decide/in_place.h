// A plan with groups of GPUs on the GPUs of another: which of them becomes which, so that most of
// what runs stays. Groups first: a group of the same service and size stays where it is, with the
// same segment before any other; the rest take GPUs in a row on which the least runs. All other
// GPUs are matched as plan/changes.h says. Pure.
#pragma once

#include "plan/serving.h"

namespace partita::decide {

// `plan` with the indices of GPUs of `current`, and further ones where it has more. GPUs of a group
// follow one another among those of their model.
plan::ServingPlan in_place_of(const plan::ServingPlan& current, plan::ServingPlan plan);

}  // namespace partita::decide
