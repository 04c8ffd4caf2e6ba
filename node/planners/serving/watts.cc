#include "planners/serving/watts.h"

#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/index.h"
#include "planners/serving/token_points.h"
#include "planners/serving/token_watts.h"

namespace partita::planners::serving {
namespace {

// Watts above idle of an instance that is always busy.
double busy_watts(const plan::FleetEntry& entry, const std::string& model, int gpcs) {
  const auto measured = entry.power->measured.find(model);
  if (measured != entry.power->measured.end()) {
    const auto found = measured->second.find(gpcs);
    if (found != measured->second.end()) return found->second.value;
  }
  return (entry.power->busy - entry.power->idle).value * gpcs / entry.gpu.compute_slices;
}

// Whether full batches of a point end as the rule asks.
bool in_time(const plan::ServingProblem& problem, const profile::ProfilePoint& point,
             const plan::Service& service) {
  const bool execution = problem.rule.kind == plan::SloRule::Kind::execution;
  return execution ? point.latency < problem.rule.fraction * service.slo
                   : profile::batch_time(point) <= service.slo;
}

}  // namespace

double joules_per_request(const plan::FleetEntry& entry, const std::string& model,
                          const PointAt& point) {
  const auto* measured =
      profile::find_point(entry.profiles.at(model), point.gpcs, point.batch, point.processes);
  return busy_watts(entry, model, point.gpcs) / measured->throughput.value;
}

namespace {

// With as many sequences at once as it may have a request of a language model costs the least.
Burn burn_of_tokens(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                    const Fleet& fleet, std::size_t s) {
  const plan::Service& service = problem.services[s];
  Burn burn{service.rate.value, {}, {}, std::vector<Prices>(modes.size())};
  for (std::size_t cls = 0; cls < at(fleet.classes); ++cls) {
    const auto e = at(fleet.model_of[cls]);
    const std::size_t k = cls - at(fleet.first_class[e]);
    const plan::FleetEntry& entry = problem.fleet[e];
    const auto engines = entry.engines.find(service.model);
    if (engines == entry.engines.end()) continue;
    for (const profile::TokenEngine& engine : engines->second) {
      const double carries = fluid_rate(service, engine).value;
      if (engine.gpus != fleet.gpus[cls] || carries <= 0 ||
          profile_of(entry.gpu, engine) != modes.front()[e].profiles[k])
        continue;
      const double joules = joules_per_answer(entry, service, engine, engine.spec.sequences);
      burn.least[cls] = burn.most[cls] > 0 ? std::min(burn.least[cls], joules) : joules;
      burn.most[cls] = std::max(burn.most[cls], carries);
    }
    for (std::size_t m = 0; m < modes.size(); ++m)
      if (const auto& best = modes[m][e].best[s][k])
        burn.joules[m][cls] =
            joules_per_answer(entry, service, *modes[m][e].engines[s][k], best->batch);
  }
  return burn;
}

}  // namespace

Burn burn_of(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
             const Fleet& fleet, std::size_t service) {
  if (problem.services[service].tokens) return burn_of_tokens(problem, modes, fleet, service);
  Burn burn{problem.services[service].rate.value, {}, {}, std::vector<Prices>(modes.size())};
  const std::string& model = problem.services[service].model;
  const bool pooled = problem.rule.kind == plan::SloRule::Kind::pooled;
  for (std::size_t cls = 0; cls < at(fleet.classes); ++cls) {
    const auto e = at(fleet.model_of[cls]);
    const std::size_t k = cls - at(fleet.first_class[e]);
    const plan::FleetEntry& entry = problem.fleet[e];
    const auto found = entry.profiles.find(model);
    if (found == entry.profiles.end()) continue;
    const int gpcs = entry.gpu.profiles[at(modes.front()[e].profiles[k])].gpcs;
    double fastest = 0, carries = 0;
    for (const profile::ProfilePoint& point : found->second.points)
      if (point.gpcs == gpcs && point.processes <= problem.max_processes &&
          in_time(problem, point, problem.services[service]))
        fastest = std::max(fastest, point.throughput.value);
    for (std::size_t m = 0; m < modes.size(); ++m) {
      const auto& best = modes[m][e].best[service][k];
      if (!best) continue;
      burn.joules[m][cls] = joules_per_request(entry, model, {gpcs, best->batch, best->processes});
      carries = std::max(carries, best->throughput.value);
    }
    if (fastest <= 0) continue;
    burn.least[cls] = busy_watts(entry, model, gpcs) / fastest;
    burn.most[cls] = pooled ? fastest : carries;
  }
  return burn;
}

namespace {

double joules_of(const plan::ServingProblem& problem, const plan::FleetEntry& entry,
                 const plan::PlannedInstance& instance) {
  const auto service = std::ranges::find(problem.services, instance.service, &plan::Service::name);
  if (service->tokens) {
    const profile::TokenEngine* const engine =
        plan::engine_of(problem, entry.gpu.name, *service, instance);
    CHECK(engine != nullptr);
    return joules_per_answer(entry, *service, *engine, instance.batch);
  }
  const int gpcs = entry.gpu.profiles[at(entry.gpu.profile_index(instance.profile))].gpcs;
  return joules_per_request(entry, service->model, {gpcs, instance.batch, instance.processes});
}

}  // namespace

double expected_watts(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  std::map<std::string, double> carried, joules;  // by service: the sum, and weighted with it
  std::map<std::string, int> used;                // by GPU model
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    ++used[gpu.model];
    const auto entry = std::ranges::find_if(
        problem.fleet, [&](const plan::FleetEntry& one) { return one.gpu.name == gpu.model; });
    for (const plan::PlannedInstance& instance : gpu.instances) {
      const double each = joules_of(problem, *entry, instance);
      carried[instance.service] += instance.throughput.value;
      joules[instance.service] += instance.throughput.value * each;
    }
  }
  double watts = 0;
  for (const plan::Service& service : problem.services)
    if (const double sum = carried[service.name]; sum > 0)
      watts += service.rate.value * joules[service.name] / sum;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const int on = used[entry.gpu.name];
    watts += on * entry.power->idle.value;
    if (entry.count) watts += (*entry.count - on) * entry.power->off.value;
  }
  return watts;
}

void state_watts(const plan::ServingProblem& problem, double bound, plan::ServingPlan& plan) {
  plan::Objective& objective = plan.objective;
  objective.goal = problem.goal;
  objective.watts = expected_watts(problem, plan);
  objective.lower_bound_watts = std::min(objective.watts, std::max(0.0, bound));
  objective.lower_bound_gpus = objective.lower_bound_gpcs = 0;
  objective.lower_bound_cost = 0;
  objective.optimal = objective.watts <= objective.lower_bound_watts * (1 + 2 * kWattsRounding);
}

}  // namespace partita::planners::serving
