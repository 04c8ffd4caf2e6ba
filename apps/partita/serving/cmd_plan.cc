#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/input_output.h"
#include "base/large_pages.h"
#include "commands.h"
#include "decide/advice.h"
#include "decide/layout_file.h"
#include "decide/simulate.h"
#include "flags.h"
#include "forms/serving_forms.h"
#include "progress.h"
#include "reasons.h"
#include "serving/day.h"
#include "serving/inputs.h"
#include "serving/replanning.h"

namespace partita::cli {
namespace {

struct PlanCommandFlags {
  decide::ProblemFiles problem;
  ReplanFlags replan;
  DayFlags day;
  std::string planner = "exact";
  int max_gpus = 0;  // 0: as many as needed
  long node_budget = decide::PlanOptions{}.node_budget;
  bool explain = false;
  Output output;
};

struct Said {
  const decide::MadeAgain& result;  // with a plan
  plan::ServingPlan plan;           // it, with what becomes of it above its rates
  std::vector<plan::SloAdvice> advice;
};

std::string render(const Context& context, const PlanCommandFlags& flags,
                   const hw::Catalogue& catalogue, const plan::ServingPlan& plan) {
  if (flags.output.svg()) return forms::plan_svg(plan, catalogue);
  forms::PictureOptions picture;
  picture.colour = context.colour && flags.output.file.empty();
  if (flags.output.file.empty()) picture.width = context.width;
  picture.explain = flags.explain;
  return forms::plan_text(plan, catalogue, picture);
}

// Everything that is said of a plan: itself, what it changes, what longer SLOs would save.
std::string content_of(const Context& context, const PlanCommandFlags& flags,
                       const hw::Catalogue& catalogue, const Said& said) {
  const plan::ServingPlan& plan = said.plan;
  const bool again = !flags.replan.current.empty();
  if (flags.output.json())
    return forms::plan_json(plan, again ? std::optional(changes_of(said.result)) : std::nullopt,
                            said.advice);
  std::string content = render(context, flags, catalogue, plan);
  if (flags.output.svg()) return content;
  if (std::ranges::all_of(plan.services, [](const plan::PlannedService& service) {
        return service.overload.empty();
      }))
    content += "above these rates: not computed; `partita simulate --load 1.05` plays it\n";
  if (!said.advice.empty())
    content += "\n" + forms::advice_text(said.advice, flags.output.file.empty()
                                                          ? context.width
                                                          : forms::PictureOptions{}.width);
  return again ? content + changes_text(said.result) : content;
}

// Plans; with --current from what runs.
Result<decide::MadeAgain> make(Context& context, const PlanCommandFlags& flags,
                               const plan::ServingProblem& problem,
                               const hw::Catalogue& catalogue) {
  const auto planner = TRY(decide::find_planner("--planner", flags.planner));
  const ReplanFlags& again = flags.replan;
  Progress progress(context);
  decide::PlanOptions options{flags.node_budget, progress.watch()};
  if (flags.max_gpus > 0) options.most_gpus = std::min(options.most_gpus, flags.max_gpus);
  if (again.current.empty()) {
    auto made = TRY(decide::make_plan(*planner, problem, options));
    return decide::MadeAgain{std::move(made), {}, {}};
  }
  auto layout = TRY(decide::load_layout(context.files, "--current", again.current, catalogue));
  const plan::ServingPlan current = decide::running(std::move(layout));
  if (const std::string others = decide::serves_others(current, problem); !others.empty())
    complain(context, again.current + ": " + others);
  return decide::make_plan_again(
      problem, current, again.max_moves >= 0 ? std::optional(again.max_moves) : std::nullopt,
      options);
}

// Of plans from scratch, where it is shown.
std::vector<plan::SloAdvice> advice_on(Context& context, const PlanCommandFlags& flags,
                                       const plan::ServingProblem& problem,
                                       const plan::ServingPlan& plan) {
  if (!flags.replan.current.empty() || flags.output.svg() || problem.goal) return {};
  const auto planner = decide::find_planner("--planner", flags.planner);
  if (!planner) return {};
  Progress progress(context);
  return decide::advise(**planner, problem, plan, {flags.node_budget, progress.watch()});
}

// plan.svg, plan-2.svg, ... for a plan of many GPUs; standard output takes the first page only.
Result<void> deliver_pages(Context& context, const Output& output, const hw::Catalogue& catalogue,
                           const plan::ServingPlan& plan) {
  const int pages = output.svg() ? forms::plan_svg_pages(plan) : 1;
  if (pages > 1 && output.file.empty())
    complain(context, fmt::format("page 1 of {}; -o FILE.svg writes them all", pages));
  for (int page = 1; page < pages && !output.file.empty(); ++page) {
    const std::filesystem::path file(output.file);
    const auto name =
        fmt::format("{}-{}{}", file.stem().string(), page + 1, file.extension().string());
    auto written =
        write_output((file.parent_path() / name).string(), forms::plan_svg(plan, catalogue, page));
    if (!written) return written;
  }
  return {};
}

// What least cost and least watts are planned with.
Result<void> check_objective(const PlanCommandFlags& flags) {
  const std::string& objective = flags.problem.objective.objective;
  if (objective.empty() || objective == "gpus") return {};
  if (flags.planner != "exact")
    return bad_input("--objective", objective + " is planned with the planner 'exact' only");
  if (!flags.replan.current.empty())
    return bad_input("--objective", objective + " is not planned from what runs (--current)");
  if (flags.day.day)
    return bad_input("--objective", objective + " is not planned over a day (--day)");
  return {};
}

// The models that a plan may name: all that there are when it begins with what runs.
Result<hw::Catalogue> models_for(Context& context, const PlanCommandFlags& flags,
                                 const plan::ServingProblem& problem) {
  if (!flags.replan.current.empty())
    return decide::load_catalogue(context.files, flags.problem.catalogue);
  return decide::catalogue_of(problem);
}

Result<Exit> run_plan(Context& context, const PlanCommandFlags& flags) {
  keep_freed_memory();
  const bool again = !flags.replan.current.empty();
  TRY(check_objective(flags));
  const auto planner = TRY(decide::find_planner("--planner", flags.planner));
  if (again && flags.planner != "exact")
    return bad_input("--planner", "--current plans with the planner 'exact' only");
  if (flags.day.day && flags.planner != "exact")
    return bad_input("--planner", "--day plans with the planner 'exact' only");
  decide::ProblemFiles files = flags.problem;
  files.objective.watts = !flags.day.tariff.prices.empty();
  std::vector<std::string> left_out;
  auto problem = TRY(decide::load_problem(context.files, files, &left_out));
  for (const std::string& sentence : left_out) complain(context, "note: " + sentence);
  if (flags.problem.rule.empty() && flags.problem.dispatch.empty())
    problem.rule = decide::rule_for(*planner, std::nullopt);
  say_doubts(context, problem, flags.problem);
  if (flags.day.day)
    return run_day(context, {flags.day, flags.max_gpus, flags.node_budget, flags.output}, problem);
  const auto catalogue = TRY(models_for(context, flags, problem));
  const auto result = TRY(make(context, flags, problem, catalogue));
  if (!result.made.plan) return refuse(context, flags.output, "plan", result.made.refusals);
  const plan::ServingPlan& plan = **result.made.plan;
  if (flags.max_gpus > 0) {
    const auto too_many = decide::too_many_gpus(plan, flags.max_gpus);
    if (!too_many.empty()) return refuse(context, flags.output, "plan", too_many);
  }
  const Said said{result, decide::with_overload(problem, *result.made.plan),
                  advice_on(context, flags, problem, plan)};
  const std::string content = content_of(context, flags, catalogue, said);
  TRY(deliver(context, flags.output, content));
  TRY(deliver_pages(context, flags.output, catalogue, plan));
  return Exit::done;
}

}  // namespace

Command add_plan(CLI::App& app) {
  auto [command, flags] = adding<PlanCommandFlags>(
      app, "plan", "Plan which service runs on which slice of which GPU, with which batch size");
  add_problem_flags(*command, flags->problem);
  add_dispatch(*command, flags->problem.dispatch);
  add_gpu_flag(*command, flags->problem);
  flag(*command, "--planner", flags->planner)->default_str(flags->planner);
  one_of(flag(*command, "--objective", flags->problem.objective.objective),
         {"gpus", "cost", "energy"});
  within(flag(*command, "--max-gpus", flags->max_gpus), 1, 1e6)->excludes("--fleet");
  add_replan_flags(*command, flags->replan);
  add_day_flags(*command, flags->day);
  add_node_budget(*command, flags->node_budget);
  flag(*command, "--explain", flags->explain);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB\n"
      "partita plan --services services.yaml --fleet fleet.yaml --format json -o plan.json\n"
      "partita plan --services services.yaml --profiles profiles.csv --gpu A100-80GB "
      "--current plan.json\n"
      "partita plan ... --objective energy [--gpu-costs costs.csv]\n"
      "partita plan ... --dispatch shared-queue\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --day\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --day "
      "--prices hours.csv\n"
      "partita plan --services day.yaml --profiles profiles.csv --gpu A100-80GB --at 20:30");
  return {command, [flags](Context& context) { return run_plan(context, *flags); }};
}

}  // namespace partita::cli
