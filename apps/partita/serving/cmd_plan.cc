#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "flags.h"
#include "forms/reason_forms.h"
#include "serving/inputs.h"
#include "forms/serving_forms.h"
#include "serving/planning.h"
#include "serving/replanning.h"

namespace partita::cli {
namespace {

struct PlanCommandFlags {
  ProblemFlags problem;
  ReplanFlags replan;
  std::string planner = "exact";
  int max_gpus = 0;  // 0: as many as needed
  long node_budget = planners::serving::Options{}.node_budget;
  bool explain = false;
  Output output;
};

// Why a plan is too large for --max-gpus, as data; empty when it is not.
std::vector<plan::Reason> too_many_gpus(const plan::ServingPlan& plan, int max_gpus) {
  const plan::Objective& objective = plan.objective;
  if (max_gpus == 0 || objective.gpus <= max_gpus) return {};
  std::string detail = fmt::format("planner '{}' needs {} GPUs", plan.planner, objective.gpus);
  if (objective.lower_bound_gpus > max_gpus) {
    detail +=
        fmt::format("; no plan has fewer than {} (proven lower bound)", objective.lower_bound_gpus);
  } else if (objective.lower_bound_gpus > 0) {
    detail += fmt::format("; the proven lower bound is {}, so a larger --node-budget may find one",
                          objective.lower_bound_gpus);
  } else {
    detail += "; it proves no lower bound: try --planner exact";
  }
  return {{"fleet_count", "gpu " + plan.gpu_model, static_cast<double>(max_gpus),
           static_cast<double>(objective.gpus), detail}};
}

Result<Exit> refuse(Context& context, const PlanCommandFlags& flags,
                    const std::vector<plan::Reason>& reasons) {
  complain(context, reasons_text("there is no such plan:", reasons));
  // -o names the place of a plan; a refusal is never written there.
  if (flags.output.format == "json") {
    auto written = deliver(context, {}, forms::refusal_json(reasons));
    if (!written) return failed(written.error());
  }
  return Exit::no;
}

std::string render(const Context& context, const PlanCommandFlags& flags, const hw::Catalogue& catalogue,
                   const plan::ServingPlan& plan) {
  if (flags.output.format == "json") return forms::plan_json(plan);
  if (flags.output.format == "svg") return forms::plan_svg(plan, catalogue);
  forms::PictureOptions picture;
  picture.colour = context.colour && flags.output.file.empty();
  picture.explain = flags.explain;
  return forms::plan_text(plan, catalogue, picture);
}

// Plans again from what runs.
Result<Exit> run_again(Context& context, const PlanCommandFlags& flags, const plan::ServingProblem& problem,
                       const hw::Catalogue& catalogue) {
  const Result<IncrementalOutcome> result =
      make_plan_again(context, flags.replan, problem, catalogue, flags.node_budget);
  if (!result) return failed(result.error());
  if (!result->outcome.plan) return refuse(context, flags, result->outcome.refusals);
  const plan::ServingPlan& plan = *result->outcome.plan;
  const auto too_many = too_many_gpus(plan, flags.max_gpus);
  if (!too_many.empty()) return refuse(context, flags, too_many);
  std::string content = flags.output.format == "json"
                            ? forms::plan_json(plan, changes_of(*result))
                            : render(context, flags, catalogue, plan);
  if (flags.output.format == "text") content += changes_text(*result);
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  return Exit::done;
}

Result<Exit> run_plan(Context& context, const PlanCommandFlags& flags) {
  const Result<const Planner*> planner = find_planner("--planner", flags.planner);
  if (!planner) return failed(planner.error());
  if (!flags.replan.current.empty() && flags.planner != "exact") {
    return bad_input("--planner", "--current plans with the planner 'exact' only");
  }
  const Result<plan::ServingProblem> problem = load_problem(context, flags.problem);
  if (!problem) return failed(problem.error());
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.problem.catalogue);
  if (!catalogue) return failed(catalogue.error());
  if (!flags.replan.current.empty()) return run_again(context, flags, *problem, *catalogue);
  const Result<Outcome> outcome = make_plan(context, **planner, *problem, flags.node_budget);
  if (!outcome) return failed(outcome.error());
  if (!outcome->plan) return refuse(context, flags, outcome->refusals);
  const auto too_many = too_many_gpus(*outcome->plan, flags.max_gpus);
  if (!too_many.empty()) return refuse(context, flags, too_many);
  const std::string content = render(context, flags, *catalogue, *outcome->plan);
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  return Exit::done;
}

}  // namespace

Command add_plan(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "Plan which service runs with which batch and processes on which slice of which GPU");
  auto flags = std::make_shared<PlanCommandFlags>();
  add_problem_flags(*command, flags->problem);
  add_gpu_flag(*command, flags->problem);
  command->add_option("--planner", flags->planner, "Who plans; `partita planners` lists them")
      ->type_name("PLANNER")
      ->default_str(flags->planner);
  within(command->add_option("--max-gpus", flags->max_gpus,
                             "Refuse (exit 1) when more GPUs than this are needed"),
         1, 1e6)
      ->type_name("N")
      ->excludes("--fleet");
  add_replan_flags(*command, flags->replan);
  add_node_budget(*command, flags->node_budget);
  command->add_flag("--explain", flags->explain, "Say why the plan is as it is (text)");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB\n"
      "partita plan --services services.yaml --fleet fleet.yaml --format json -o plan.json\n"
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB "
      "--current plan.json");
  return {command, [flags](Context& context) { return run_plan(context, *flags); }};
}

}  // namespace partita::cli
