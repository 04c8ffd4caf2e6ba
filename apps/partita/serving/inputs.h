// The flags that name the inputs of serving commands.
#pragma once

#include <string>

#include "decide/serving_inputs.h"

namespace CLI {
class App;
}

namespace partita::cli {

// --services, --profiles, --fleet, --catalogue, --slo-rule, --max-processes.
void add_problem_flags(CLI::App& command, decide::ProblemFiles& flags);
// --dispatch; `what` opens the help text.
void add_dispatch(CLI::App& command, std::string& dispatch, const std::string& what);
// --gpu as well, for commands that choose the GPU model rather than read it from a plan.
void add_gpu_flag(CLI::App& command, decide::ProblemFiles& flags);

// --node-budget.
void add_node_budget(CLI::App& command, long& node_budget);

struct PlanFlags {
  std::string plan;  // path
  decide::ProblemFiles problem;
};

// PLAN and the problem flags (the GPU model is the plan's).
void add_plan_flags(CLI::App& command, PlanFlags& flags);

}  // namespace partita::cli
