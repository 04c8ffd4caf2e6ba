#include "planners/serving/finish.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "planners/serving/instance_rates.h"
#include "planners/serving/pooled.h"

namespace partita::planners::serving {
namespace {

using plan::PlannedInstance;

// The model's percentile latency of an instance at its share of the service's rate; equal questions
// asked once.
class LatencyOracle {
 public:
  explicit LatencyOracle(const plan::ServingProblem& problem)
      : problem_(problem), rates_(problem.rule.dispatch) {}

  Millis predict(const plan::Service& service, const plan::PlannedGpu& gpu,
                 const PlannedInstance& instance, Rps load) {
    if (problem_.rule.kind == plan::SloRule::Kind::execution) return instance.latency;
    const Key key{service.model,      gpu.model,  instance.profile,  instance.batch,
                  instance.processes, load.value, service.percentile};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(key, compute(service, gpu, instance, load)).first->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, int, int, double, double>;

  Millis compute(const plan::Service& service, const plan::PlannedGpu& gpu,
                 const PlannedInstance& instance, Rps load) const {
    const auto entry = std::find_if(
        problem_.fleet.begin(), problem_.fleet.end(),
        [&](const plan::FleetEntry& candidate) { return candidate.gpu.name == gpu.model; });
    const int shape = entry->gpu.profile_index(instance.profile);
    const int gpcs = entry->gpu.profiles[static_cast<std::size_t>(shape)].gpcs;
    const profile::WorkloadProfile& profile = entry->profiles.at(service.model);
    const profile::ProfilePoint* const point =
        profile::find_point(profile, gpcs, instance.batch, instance.processes);
    return rates_.latency({gpu.model, profile, *point, service}, load);
  }

  const plan::ServingProblem& problem_;
  const InstanceRates rates_;
  std::map<Key, Millis> known_;
};

}  // namespace

Options quietly(const Options& options) {
  Options quiet = options;
  quiet.progress = nullptr;
  return quiet;
}

bool meets_its_bounds(const plan::ServingProblem& problem, const plan::Objective& objective) {
  const bool fewest = problem.fleet.size() == 1
                          ? objective.gpus <= objective.lower_bound_gpus
                          : objective.cost <= objective.lower_bound_cost * (1 + 1e-9);
  return fewest && objective.gpcs <= objective.lower_bound_gpcs;
}

Outcome complete(Outcome outcome, const plan::ServingProblem& problem, const std::string& planner,
                 const Stopwatch& watch) {
  if (!outcome.plan) return outcome;
  plan::ServingPlan& plan = *outcome.plan;
  plan.stats.planning_ms = watch.planning_ms();
  plan.stats.capacity_ms = watch.capacity_ms();
  plan.gpu_model = problem.fleet.front().gpu.name;
  plan.planner = planner;
  plan.rule = problem.rule;
  plan.survive = problem.survive;
  if (problem.rule.kind == plan::SloRule::Kind::pooled) {
    return outcome;  // who plans pools has filled in the rows
  }
  std::map<std::string, std::size_t> index;
  for (const plan::Service& service : problem.services) {
    index.emplace(service.name, plan.services.size());
    plan.services.push_back(plan::row_of(service, problem.rule));
  }
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& instance : gpu.instances)
      plan.services[index.at(instance.service)].planned += instance.throughput;
  LatencyOracle oracle(problem);
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    for (const PlannedInstance& instance : gpu.instances) {
      const std::size_t s = index.at(instance.service);
      plan::PlannedService& row = plan.services[s];
      const Rps load = plan::share_of(row, instance);
      row.predicted_latency =
          std::max(row.predicted_latency, oracle.predict(problem.services[s], gpu, instance, load));
    }
  }
  return outcome;
}

}  // namespace partita::planners::serving
