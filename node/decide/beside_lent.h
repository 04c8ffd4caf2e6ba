// Planning beside instances that are lent to others (act/lease): in the problem each is a service
// of its own that one instance of its shape serves. Where the planner has moved one it is put back,
// and others change places; the plan is then taken without them, and judged. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/serving.h"
#include "hw/layout.h"

namespace partita::decide {

struct LentPlace : hw::Placement {
  std::string name;  // of who has it and where, for people; of one only
  int gpu = 0;       // index, as in the plan
  std::string gpu_model;
};

// As make_plan_again, on what is not lent; proofs of the optimum are left out. No plan where the
// planner finds none in which all that is lent stays. Not for problems in which a GPU may be lost.
Result<MadeAgain> make_plan_beside(const plan::ServingProblem& problem,
                                   const plan::ServingPlan& current, std::optional<int> max_moves,
                                   const std::vector<LentPlace>& lent, const PlanOptions& options);

}  // namespace partita::decide
