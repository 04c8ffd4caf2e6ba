#include "serving/judge.h"

#include <CLI/CLI.hpp>

#include "verify/serving.h"

namespace partita::cli {

void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("PLAN", flags.plan, "A plan (JSON), as `partita plan --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_problem_flags(command, flags.problem);
}

Result<Judged> judge(Context& context, const PlanFlags& flags) {
  Result<plan::ServingPlan> plan = load_plan(context, flags.plan);
  if (!plan) return failed(plan.error());
  ProblemFlags completed = flags.problem;
  completed.gpu = plan->gpu_model;
  completed.gpu_source = flags.plan;
  if (completed.rule.empty()) completed.rule = plan::to_string(plan->rule);
  if (completed.max_processes == 0) completed.max_processes = profile::kMaxProcesses;
  Result<plan::ServingProblem> problem = load_problem(context, completed);
  if (!problem) return failed(problem.error());
  Judged judged{std::move(*problem), std::move(*plan), {}};
  judged.violations = verify::verify(judged.problem, judged.plan);
  return judged;
}

}  // namespace partita::cli
