#include "serving/inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "context.h"
#include "decide/doubts.h"
#include "flags.h"
#include "plan/predictions.h"
#include "profile/workload_profile.h"

namespace partita::cli {
namespace {

constexpr char kServicesHelp[] =
    "The services: a YAML or JSON list of name, model, rate_rps, slo_ms and optional percentile, "
    "min_replicas, anti_affinity, headroom, arrivals, trace, rates";
constexpr char kProfilesHelp[] =
    "Profiles of the models on the GPU: a native CSV, a directory of ParvaGPU CSVs (one per "
    "model), or performance laws (JSON)";

}  // namespace

void add_problem_flags(CLI::App& command, decide::ProblemFiles& flags) {
  command.add_option("--services", flags.services, kServicesHelp)->type_name("FILE")->required();
  auto* profiles =
      command.add_option("--profiles", flags.profiles, kProfilesHelp)->type_name("PATH");
  command
      .add_option("--fleet", flags.fleet,
                  "A fleet of several GPU models: a YAML or JSON list under `gpus` of gpu, "
                  "profiles, and optional count and price; minimises the summed price")
      ->type_name("FILE")
      ->excludes(profiles);
  command
      .add_option("--slo-rule", flags.rule,
                  "What meeting a latency objective means. pooled: the percentile of the latency, "
                  "waiting included, is <= SLO when a service's instances share one queue; "
                  "queueing: when every instance has its own; execution:F: a batch executes in "
                  "< F x SLO. Default: the plan's, or the planner's own, or pooled")
      ->type_name("RULE");
  within(command.add_option(
             "--max-processes", flags.max_processes,
             "Maximum number of MPS processes on one instance (default: 3 to plan with, "
             "any to check with)"),
         1, profile::kMaxProcesses)
      ->type_name("N");
  within(command.add_option("--survive", flags.survive,
                            "GPUs that may be lost, any of them: the others keep every SLO as they "
                            "are (else what the services file says)"),
         0, plan::kMostLost)
      ->type_name("N");
  command
      .add_option("--at", flags.at,
                  "A time of day: services with `rates` have the one of that time (else rate_rps, "
                  "or the highest)")
      ->type_name("HH:MM");
  command
      .add_option("--gpu-costs", flags.objective.costs,
                  "Watts and prices by GPU model, for --objective cost or energy: a CSV of gpu, "
                  "idle_w, busy_w, off_w, price_per_hour, source (default: what comes with the "
                  "program)")
      ->type_name("FILE");
  command
      .add_option("--power-table", flags.objective.power_table,
                  "Watts by model and slice, for --objective energy: a table as `partita power "
                  "table` writes it, of the GPU's SMs")
      ->type_name("FILE");
  add_catalogue(command, flags.catalogue);
}

void add_dispatch(CLI::App& command, std::string& dispatch, const std::string& what) {
  one_of(command.add_option("--dispatch", dispatch,
                            what + ". pooled: one queue per service over all its instances; "
                                   "paced: one per instance, batches at a pace; shared-queue: one "
                                   "per instance, as dynamic batching of an ordinary server; "
                                   "per-process: one per process"),
         {"pooled", "paced", "shared-queue", "per-process"});
}

void add_gpu_flag(CLI::App& command, decide::ProblemFiles& flags) {
  command.add_option("--gpu", flags.gpu, "The GPU model; `partita gpus` lists the names")
      ->type_name("GPU")
      ->excludes("--fleet");
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
  within(command.add_option("--node-budget", node_budget,
                            "Limit on the search nodes of a planner; when it is reached the plan "
                            "states the gap to the lower bound"),
         1, 1e12)
      ->type_name("N")
      ->default_str(fmt::format("{}", node_budget));
}

}  // namespace partita::cli
