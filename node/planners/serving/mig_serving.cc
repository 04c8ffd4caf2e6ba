#include "planners/serving/mig_serving.h"

#include <utility>

#include "planners/serving/baseline.h"
#include "planners/serving/mig_serving_search.h"

namespace partita::planners::serving {
namespace {

const Baseline kBoth{"mig-serving", 1}, kGreedy{"mig-serving-greedy", 1};

// The fast algorithm; more than the limit of GPUs where it does not come to an end.
GpuConfigs deploy_greedily(const ConfigSpace& space) {
  GpuConfigs deployment;
  Missing missing = space.all();
  while (!ConfigSpace::done(missing) && deployment.size() <= kMaxBaselineGpus) {
    deployment.push_back(space.best_score(missing));
    space.take(missing, deployment.back());
  }
  return deployment;
}

Outcome plan_phases(const plan::ServingProblem& problem, const Options& options, bool both) {
  const Baseline& baseline = both ? kBoth : kGreedy;
  if (auto refusals = cannot_plan(baseline, problem); !refusals.empty())
    return {std::nullopt, std::move(refusals)};
  Stopwatch watch(options);
  const plan::ServingProblem used = as_baseline(problem);
  const ConfigSpace space(used);
  GpuConfigs deployment = deploy_greedily(space);
  if (deployment.size() > kMaxBaselineGpus) return too_many_gpus_for("MIG-serving");
  long steps = 0;
  if (both) {
    Evolved evolved = evolve(space, std::move(deployment), options.node_budget);
    deployment = std::move(evolved.deployment);
    steps = evolved.steps;
  }
  Outcome outcome = finish_baseline(space.to_gpus(deployment), used, baseline, watch);
  if (outcome.plan) outcome.plan->stats.nodes = steps;
  return outcome;
}

}  // namespace

Outcome plan_mig_serving(const plan::ServingProblem& problem, const Options& options) {
  return plan_phases(problem, options, true);
}

Outcome plan_mig_serving_greedy(const plan::ServingProblem& problem, const Options& options) {
  return plan_phases(problem, options, false);
}

}  // namespace partita::planners::serving
