// The flags that name the inputs of serving commands.
#pragma once

#include <string>

#include "decide/serving_inputs.h"

namespace CLI {
class App;
}

namespace partita::cli {

struct Context;

// --services, --profiles, --fleet, --catalogue, --slo-rule, --max-processes, --at.
void add_problem_flags(CLI::App& command, decide::ProblemFiles& flags);
// --dispatch; `what` opens the help text.
void add_dispatch(CLI::App& command, std::string& dispatch);
// --gpu as well, for commands that choose the GPU model rather than read it from a plan.
void add_gpu_flag(CLI::App& command, decide::ProblemFiles& flags);

// Warnings about inputs that are probably not meant, on standard error.
void say_doubts(Context& context, const plan::ServingProblem& problem,
                const decide::ProblemFiles& flags);

// What of the plan rests on predictions, on standard error.
void say_predictions(Context& context, const std::string& file, const plan::ServingPlan& plan);

// --node-budget.
void add_node_budget(CLI::App& command, long& node_budget);

struct PlanFlags {
  std::string plan;  // path
  decide::ProblemFiles problem;
};

// PLAN and the problem flags (the GPU model is the plan's).
void add_plan_flags(CLI::App& command, PlanFlags& flags);

}  // namespace partita::cli
