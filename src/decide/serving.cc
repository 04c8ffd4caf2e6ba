#include "decide/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/append.h"
#include "base/nearest.h"
#include "plan/predictions.h"
#include "planners/serving/finish.h"
#include "planners/serving/pool_memo.h"
#include "verify/pool_memo.h"

namespace partita::decide {
namespace {

constexpr std::size_t kTellOfJudge = 500;    // services: from there on it takes a second
constexpr std::size_t kPoolsOfService = 12;  // answers remembered from turn to turn
constexpr int kMostRoomier = 3;              // plans after the first
constexpr double kRoom = 0.02;               // of the rate, the first time
constexpr double kRoomOfMany = 0.05;
constexpr std::size_t kManyServices = 500;

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

// More from turn to turn, and more for a few of many, which hardly make the plan larger.
double room_of(const plan::ServingProblem& problem, int turn) {
  return std::ldexp(problem.services.size() > kManyServices ? kRoomOfMany : kRoom, turn);
}

// Pools that the planner's arrivals find good enough and the judge's do not are planned for a
// little more traffic; true when that is all that the judge says.
bool give_room(plan::ServingProblem& asked, const std::vector<plan::Reason>& violations,
               double room) {
  if (asked.rule.kind != plan::SloRule::Kind::pooled) return false;
  std::map<std::string, std::size_t> services;
  for (std::size_t s = 0; s < asked.services.size(); ++s) {
    services.emplace("service " + asked.services[s].name, s);
    services.emplace("service " + asked.services[s].name + " predicted_latency_ms", s);
  }
  std::set<std::size_t> missed;
  for (const plan::Reason& violation : violations) {
    const auto service = services.find(violation.subject);
    const bool in_time = violation.constraint == "slo" || violation.constraint == "service_row";
    if (!in_time || service == services.end()) return false;
    missed.insert(service->second);
  }
  for (const std::size_t s : missed) {
    double& headroom = asked.services[s].traffic.headroom;
    headroom = (1 + headroom) * (1 + room) - 1;
  }
  return true;
}

// A plan for more traffic with the bounds of what was asked.
plan::ServingPlan bounded(const plan::ServingProblem& problem, plan::ServingPlan plan,
                          const plan::Objective& bounds, int turn) {
  plan::Objective& own = plan.objective;
  own.lower_bound_gpus = std::min(own.gpus, bounds.lower_bound_gpus);
  own.lower_bound_gpcs = std::min(own.gpcs, bounds.lower_bound_gpcs);
  own.lower_bound_cost = std::min(own.cost, bounds.lower_bound_cost);
  own.lower_bound_watts = std::min(own.watts, bounds.lower_bound_watts);
  own.optimal = problem.goal == plan::Goal::energy
                    ? own.watts <= own.lower_bound_watts
                    : planners::serving::meets_its_bounds(problem, own);
  plan.explanation.push_back(fmt::format(
      "the judge's arrivals found pools too tight that the planner's did not; planned {} with more "
      "room for those, {:g} % at first",
      turn == 1 ? "once more" : fmt::format("{} times more", turn), 100 * room_of(problem, 0)));
  return plan;
}

plan::PlanStats plus(const plan::PlanStats& a, const plan::PlanStats& b) {
  return {a.planning_ms + b.planning_ms, a.capacity_ms + b.capacity_ms, a.nodes + b.nodes};
}

using PlanFor = std::function<planners::serving::Outcome(const plan::ServingProblem&,
                                                         const planners::serving::Options&)>;

// What `plan_for` makes of the problem, judged; of a little more traffic where the judge refuses
// nothing but pools.
Result<Made<plan::ServingPlan>> with_room(const std::string& planner,
                                          const plan::ServingProblem& problem, PlanOptions options,
                                          const PlanFor& plan_for) {
  // A turn asks anew of the services that got room; of all others it is known.
  const std::size_t most = kPoolsOfService * problem.services.size();
  planners::serving::PoolMemo planners_pools(most);
  verify::PoolMemo judges_pools(most);
  if (!options.planners_pools) options.planners_pools = &planners_pools;
  if (!options.judges_pools) options.judges_pools = &judges_pools;
  plan::ServingProblem asked = problem;
  std::optional<plan::Objective> bounds;
  plan::PlanStats spent;  // by all turns
  for (int turn = 0;; ++turn) {
    planners::serving::Outcome outcome = plan_for(asked, serving_options(options));
    std::optional<plan::ServingPlan> plan = marked(problem, outcome);
    if (!plan) return Made<plan::ServingPlan>{std::nullopt, std::move(outcome.refusals)};
    spent = plus(spent, plan->stats);
    plan->stats = spent;
    if (!bounds) bounds = plan->objective;
    if (turn > 0) plan = bounded(problem, *std::move(plan), *bounds, turn);
    if (options.watch.progress && problem.services.size() > kTellOfJudge)
      options.watch.progress(
          fmt::format("the judge looks at {} services", problem.services.size()));
    auto verdict = verify::judge(problem, options.judges_pools, *std::move(plan));
    if (verdict) return Made<plan::ServingPlan>{*std::move(verdict), {}};
    const std::vector<plan::Reason>& violations = verdict.error().violations;
    if (turn == kMostRoomier || !give_room(asked, violations, room_of(problem, turn)))
      return failed(refused_by_judge(planner, violations));
  }
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
                                     did_you_mean(name, names), joined(names, ", ")));
}

plan::SloRule rule_for(const Planner& planner, const std::optional<plan::SloRule>& asked) {
  if (asked) return *asked;
  return planner.own_rule.value_or(plan::SloRule{});
}

Result<Made<plan::ServingPlan>> make_plan(const Planner& planner,
                                          const plan::ServingProblem& problem,
                                          const PlanOptions& options) {
  return with_room(fmt::format("planner '{}' made a plan", planner.name), problem, options,
                   planner.plan);
}

Result<MadeAgain> make_plan_again(const plan::ServingProblem& problem,
                                  const plan::ServingPlan& current, std::optional<int> max_moves,
                                  const PlanOptions& options) {
  planners::serving::IncrementalOutcome again;
  auto made = with_room(
      "the incremental planner made a plan", problem, options,
      [&](const plan::ServingProblem& asked, const auto& planners_options) {
        again = planners::serving::incremental(asked, current, {planners_options, max_moves});
        return std::move(again.outcome);
      });
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
