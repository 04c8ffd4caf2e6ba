// Plans that people send: read, put on this node's GPUs, judged. Internal to control.
#pragma once

#include <string>

#include "control/planning.h"

namespace partita::control {

// Whether a text is a document ServingPlan.
bool is_plan(const std::string& text);

// The plan in a document ServingPlan, on those GPUs where the least changes. bad_input with
// FILE:LINE; environment: the node cannot be read; infeasible, with what the judge says.
Result<Planned> sent_plan(const World& world, const PlanGround& ground, PlanMemo& memo,
                          const std::string& text);

}  // namespace partita::control
