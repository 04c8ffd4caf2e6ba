// The part of the demo that changes a node: a plan applied to a simulated one, then the plan for
// more traffic. In memory, instantly; nothing of it outlives the call.
#pragma once

#include "context.h"
#include "plan/judged.h"
#include "plan/serving.h"

namespace partita::cli {

// Applies the plan of the problem to `gpus` simulated GPUs, then plans anew with every third
// service's rate a quarter higher, applies that, and shows what changed and what did not.
Result<void> show_node(Context& context, const plan::ServingProblem& problem,
                       const plan::Judged<plan::ServingPlan>& plan, int gpus);

}  // namespace partita::cli
