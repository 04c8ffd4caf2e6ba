#include "serving/inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "context.h"
#include "decide/doubts.h"
#include "flags.h"
#include "plan/predictions.h"
#include "profile/workload_profile.h"

namespace partita::cli {

void add_problem_flags(CLI::App& command, decide::ProblemFiles& flags) {
  flag(command, "--services", flags.services)->required();
  auto* profiles = flag(command, "--profiles", flags.profiles);
  flag(command, "--fleet", flags.fleet)->excludes(profiles);
  flag(command, "--slo-rule", flags.rule);
  within(flag(command, "--max-processes", flags.max_processes), 1, profile::kMaxProcesses);
  within(flag(command, "--survive", flags.survive), 0, plan::kMostLost);
  flag(command, "--at", flags.at);
  flag(command, "--gpu-costs", flags.objective.costs);
  flag(command, "--power-table", flags.objective.power_table);
  add_catalogue(command, flags.catalogue);
}

void add_dispatch(CLI::App& command, std::string& dispatch) {
  one_of(flag(command, "--dispatch", dispatch), {"pooled", "paced", "shared-queue", "per-process"});
}

void add_gpu_flag(CLI::App& command, decide::ProblemFiles& flags) {
  flag(command, "--gpu", flags.gpu)->excludes("--fleet");
}

void add_plan_flags(CLI::App& command, PlanFlags& flags) {
  command
      .add_option("PLAN", flags.plan, "A plan (JSON), as `partita plan --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_problem_flags(command, flags.problem);
}

void say_doubts(Context& context, const plan::ServingProblem& problem,
                const decide::ProblemFiles& flags) {
  for (const std::string& doubt : decide::doubts(problem, flags.services))
    complain(context, "warning: " + doubt);
}

void say_predictions(Context& context, const std::string& file, const plan::ServingPlan& plan) {
  const std::string predictions = plan::predictions_text(plan);
  if (!predictions.empty()) complain(context, fmt::format("{}: {}", file, predictions));
}

void add_node_budget(CLI::App& command, long& node_budget) {
  within(flag(command, "--node-budget", node_budget), 1, 1e12)
      ->default_str(fmt::format("{}", node_budget));
}

}  // namespace partita::cli
