#include "decide/serving.h"

#include <fmt/format.h>

#include "base/nearest.h"
#include "plan/predictions.h"

namespace partita::decide {
namespace {

constexpr std::size_t kTellOfJudge = 500;  // services: from there on it takes a second

planners::serving::Options serving_options(const PlanOptions& options) {
  return {options.node_budget, options.watch.cpu_ms, options.watch.progress,
          options.planners_pools};
}

// What a planner made, with what of it rests on predictions.
std::optional<plan::ServingPlan> marked(const plan::ServingProblem& problem,
                                        planners::serving::Outcome& outcome) {
  if (!outcome.plan) return std::nullopt;
  return plan::with_predictions(problem, *std::move(outcome.plan));
}

}  // namespace

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const Planner& planner : planners::serving::planners()) names.push_back(planner.name);
  return names;
}

Result<const Planner*> find_planner(const std::string& flag, const std::string& name) {
  for (const Planner& planner : planners::serving::planners()) {
    if (planner.name == name) return &planner;
  }
  const std::vector<std::string> names = planner_names();
  return bad_input(flag, fmt::format("unknown planner '{}'{} (there are {})", name,
                                     did_you_mean(name, names), fmt::join(names, ", ")));
}

plan::SloRule rule_for(const Planner& planner, const std::optional<plan::SloRule>& asked) {
  if (asked) return *asked;
  return planner.own_rule.value_or(plan::SloRule{});
}

Result<Made<plan::ServingPlan>> make_plan(const Planner& planner,
                                          const plan::ServingProblem& problem,
                                          const PlanOptions& options) {
  planners::serving::Outcome outcome = planner.plan(problem, serving_options(options));
  if (options.watch.progress && problem.services.size() > kTellOfJudge)
    options.watch.progress(fmt::format("the judge looks at {} services", problem.services.size()));
  return make_and_judge(fmt::format("planner '{}' made a plan", planner.name), problem,
                        marked(problem, outcome), std::move(outcome.refusals),
                        options.judges_pools);
}

Result<MadeAgain> make_plan_again(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, std::optional<int> max_moves,
                                  const PlanOptions& options) {
  auto again =
      planners::serving::incremental(problem, current, {serving_options(options), max_moves});
  auto made =
      make_and_judge("the incremental planner made a plan", problem, marked(problem, again.outcome),
                     std::move(again.outcome.refusals), options.judges_pools);
  if (!made) return failed(made.error());
  return MadeAgain{*std::move(made), again.changes, std::move(again.curve)};
}

std::vector<plan::Reason> too_many_gpus(const plan::ServingPlan& plan, int max_gpus) {
  const plan::Objective& objective = plan.objective;
  if (objective.gpus <= max_gpus) return {};
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

}  // namespace partita::decide
