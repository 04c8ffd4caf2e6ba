// Judge: a plan file with the problem that it claims to solve and what is wrong with it. Shared by
// the commands that take a PLAN, so that every plan is judged before anything is done with it.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "serving/inputs.h"
#include "plan/reason.h"

namespace partita::cli {

struct PlanFlags {
  std::string plan;  // path
  ProblemFlags problem;
};

// PLAN and the problem flags (the GPU model is the plan's).
void add_plan_flags(CLI::App& command, PlanFlags& flags);

struct Judged {
  plan::ServingProblem problem;
  plan::ServingPlan plan;
  std::vector<plan::Reason> violations;
};

// The SLO rule is the plan's own unless --slo-rule is given; processes are limited only by
// --max-processes.
Result<Judged> judge(Context& context, const PlanFlags& flags);

}  // namespace partita::cli
