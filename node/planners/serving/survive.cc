#include "planners/serving/survive.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/index.h"
#include "planners/serving/energy.h"
#include "planners/serving/exact.h"
#include "planners/serving/finish.h"
#include "planners/serving/fleet.h"
#include "planners/serving/watts.h"

namespace partita::planners::serving {
namespace {

using Modes = std::vector<PointTables>;

// A mode of one service whose largest instance carries so much.
struct SpareMode {
  std::size_t mode;
  double largest;
};

std::vector<SpareMode> spare_modes(const Modes& modes, std::size_t s) {
  std::vector<SpareMode> found;
  for (std::size_t m = 0; m < modes.size(); ++m) {
    std::set<double> rates;
    for (const PointTable& table : modes[m])
      for (const auto& point : table.best[s])
        if (point) rates.insert(point->throughput.value);
    for (const double rate : rates) found.push_back({m, rate});
  }
  return found;
}

PointTables empty_like(const PointTables& tables, std::size_t services) {
  PointTables empty;
  for (const PointTable& table : tables) {
    const std::vector<std::optional<BestPoint>> none(table.profiles.size());
    empty.push_back({.profiles = table.profiles,
                     .best = {services, none},
                     .gpus = table.gpus,
                     .engines = table.engines});
  }
  empty.front().demand.assign(services, std::numeric_limits<double>::infinity());
  return empty;
}

plan::ServingProblem kept_apart(const plan::ServingProblem& problem) {
  plan::ServingProblem apart = problem;
  for (plan::Service& service : apart.services) service.spread = true;
  return apart;
}

// What is left after a loss need not have the replicas that are asked for.
plan::ServingProblem after_loss(const plan::ServingProblem& problem) {
  plan::ServingProblem left = problem;
  for (plan::Service& service : left.services) service.min_replicas = 1;
  return left;
}

}  // namespace

std::vector<PointTables> with_spare(const plan::ServingProblem& problem, const Modes& modes) {
  Modes spare;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const std::vector<SpareMode> ways = spare_modes(modes, s);
    for (std::size_t way = 0; way < ways.size(); ++way) {
      if (way == spare.size()) spare.push_back(empty_like(modes.front(), problem.services.size()));
      const PointTables& from = modes[ways[way].mode];
      PointTables& to = spare[way];
      to.front().demand[s] = demand_of(problem, from, s) + ways[way].largest;
      for (std::size_t e = 0; e < from.size(); ++e)
        for (std::size_t k = 0; k < from[e].profiles.size(); ++k)
          if (const auto& point = from[e].best[s][k];
              point && point->throughput.value <= ways[way].largest)
            to[e].best[s][k] = point;
    }
  }
  return spare;
}

Outcome plan_surviving(const plan::ServingProblem& problem, const Modes& modes,
                       const Options& options) {
  if (auto reasons = unservable(problem, modes); !reasons.empty())
    return {std::nullopt, std::move(reasons)};
  const Modes spare = with_spare(problem, modes);
  Outcome outcome = plan_exact(kept_apart(problem), spare, options);
  if (outcome.plan) {
    outcome.plan->explanation.insert(
        outcome.plan->explanation.begin(),
        "any one GPU may be lost: every service has at most one instance on a GPU and carries its "
        "rate without its largest; the bounds that follow are of such plans");
    return outcome;
  }
  // What no plan of this kind reaches another one may.
  const Outcome any = plan_exact(problem, spare, quietly(options));
  if (!any.plan) return any;
  const bool single = problem.fleet.size() == 1;
  const plan::Objective& least = any.plan->objective;
  for (plan::Reason& reason : outcome.refusals) {
    reason.need = single ? least.lower_bound_gpus : least.lower_bound_cost;
    reason.detail =
        "no plan was found that has at most one instance of a service on a GPU and keeps every SLO "
        "when any GPU is lost";
  }
  return outcome;
}

void bound_surviving(const plan::ServingProblem& problem, const Modes& modes,
                     const Options& options, plan::ServingPlan& plan) {
  plan::Objective& objective = plan.objective;
  if (problem.goal == plan::Goal::energy) {
    plan::ServingProblem least = problem;  // whatever else stands where
    for (plan::Service& one : least.services) one.min_replicas = std::max(2, one.min_replicas);
    return state_watts(problem, plan_energy(least, modes, quietly(options)).bound, plan);
  }
  const Modes spare = with_spare(problem, modes);
  const bool single = problem.fleet.size() == 1;
  const auto fleet = make_fleet(problem, spare.front());
  const double slices = fleet ? slices_at_least(problem, spare, *fleet) : 0;
  int gpus = 0, gpcs = static_cast<int>(std::ceil(slices - 1e-6));
  double cost = 0;
  const Outcome with_all = plan_exact(problem, spare, quietly(options));
  if (with_all.plan) {
    const plan::Objective& found = with_all.plan->objective;
    gpus = found.lower_bound_gpus;
    cost = found.lower_bound_cost;
    if (single && found.gpus == objective.gpus) gpcs = std::max(gpcs, found.lower_bound_gpcs);
  }
  // What is left after a loss is a plan too.
  const Outcome left = plan_exact(after_loss(problem), modes, quietly(options));
  if (left.plan && !problem.services.empty()) {
    double cheapest = std::numeric_limits<double>::infinity();
    for (const plan::FleetEntry& entry : problem.fleet) cheapest = std::min(cheapest, entry.price);
    gpus = std::max(gpus, left.plan->objective.lower_bound_gpus + 1);
    cost = std::max(cost, left.plan->objective.lower_bound_cost + cheapest);
  }
  objective.lower_bound_gpus = std::min(objective.gpus, gpus);
  objective.lower_bound_cost = std::min(objective.cost, cost);
  objective.lower_bound_gpcs = std::min(objective.gpcs, gpcs);
  objective.optimal = meets_its_bounds(problem, objective);
  plan.explanation.push_back(fmt::format(
      "whatever stands where, {} GPUs and {} compute slices are needed at least: every service "
      "carries its rate without its largest instance, and what a loss leaves is a plan",
      objective.lower_bound_gpus, objective.lower_bound_gpcs));
}

std::vector<plan::Reason> cannot_survive(const plan::ServingProblem& problem,
                                         const std::string& planner) {
  if (problem.survive == 0) return {};
  return {{plan::kNotFound, "planner " + planner, 0, 1.0 * problem.survive,
           "it does not plan for the loss of a GPU (survive); the planner 'exact' does, from "
           "scratch"}};
}

}  // namespace partita::planners::serving
