// The independent judge of serving plans. Recomputes everything from the problem, the profiles and hw alone; shares
// no code with planners or model.
#pragma once

#include <vector>

#include "plan/reason.h"
#include "plan/serving.h"

namespace partita::verify {

// All violations; empty means the plan is right. Constraints reported (the fixed words): see serving.cc's table.
std::vector<plan::Reason> verify(const plan::ServingProblem& problem,
                                 const plan::ServingPlan& plan);

}  // namespace partita::verify
