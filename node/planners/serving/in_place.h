// A plan with groups of GPUs on the GPUs of another: which of them becomes which, so that most of
// what runs stays. Groups first: a group of the same service and size stays where it is, with the
// same segment before any other; the rest take GPUs in a row of one node on which the plan keeps
// the least by the numbers that its GPUs have, then on which the least runs. All other GPUs are
// matched as plan/changes.h says. Pure.
#pragma once

#include <vector>

#include "plan/serving.h"

namespace partita::planners::serving {

// `plan`, of the fleet, with the indices of GPUs of `current`, and of further ones, the first that
// it does not name, where it has more or where groups find no node's GPUs in a row among them, as
// far as the fleet has so many. Where that is not enough all groups move, at last so that they
// stand close together; where that is not either, `plan` as it is, whose numbers may be of no GPU.
plan::ServingPlan in_place_of(const plan::ServingPlan& current, plan::ServingPlan plan,
                              const std::vector<plan::FleetEntry>& fleet);

}  // namespace partita::planners::serving
