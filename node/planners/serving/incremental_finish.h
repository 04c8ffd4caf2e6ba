// From a deployment to a plan: which kept instances stay as they are, which are restarted with
// another batch size or process count, which are not needed; and why each created one is there.
#pragma once

#include <string>
#include <vector>

#include "planners/serving/incremental_state.h"

namespace partita::planners::serving {

// The GPUs of the plan, ascending index. Per service: as few restarts as its instances allow, then
// spare instances are left out, the largest first, and created ones made smaller.
std::vector<plan::PlannedGpu> finished(const Deployment& deployment);

// The same GPUs with the indices of those of the current plan that plan::match_gpus gives them.
std::vector<plan::PlannedGpu> named_as_matched(const plan::ServingPlan& current,
                                               std::vector<plan::PlannedGpu> gpus);

// One sentence per instance that must be created: from where to where, and why.
std::vector<std::string> explain_moves(const plan::ServingPlan& current,
                                       const std::vector<plan::PlannedGpu>& gpus,
                                       const plan::ServingProblem& problem);

}  // namespace partita::planners::serving
