#include "planners/serving/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "planners/serving/points.h"
#include "planners/serving/survive.h"

namespace partita::planners::serving {
namespace {

using plan::Reason;

void check_neighbours(const plan::PlannedGpu& gpu,
                      const std::map<std::string, const plan::Service*>& services,
                      std::vector<Reason>& refusals) {
  std::map<std::string, int> here;
  for (const plan::PlannedInstance& instance : gpu.instances) ++here[instance.service];
  for (const auto& [name, times] : here) {
    const plan::Service& service = *services.at(name);
    if (service.spread && times > 1)
      refusals.push_back({plan::kNotFound, fmt::format("service {} on gpu {}", name, gpu.index),
                          1.0 * times, 1, "the planner knows nothing of anti_affinity"});
    for (const std::string& other : std::set(service.avoid.begin(), service.avoid.end()))
      if (other != name && here.contains(other))
        refusals.push_back({plan::kNotFound,
                            fmt::format("services {} and {} on gpu {}", name, other, gpu.index), 2,
                            1, "the planner knows nothing of anti_affinity"});
  }
}

std::vector<Reason> unknown_wishes(const plan::ServingPlan& plan,
                                   const plan::ServingProblem& problem) {
  std::vector<Reason> refusals;
  std::map<std::string, const plan::Service*> services;
  std::map<std::string, int> replicas;
  for (const plan::Service& service : problem.services) services.emplace(service.name, &service);
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    check_neighbours(gpu, services, refusals);
    for (const plan::PlannedInstance& instance : gpu.instances) ++replicas[instance.service];
  }
  for (const plan::Service& service : problem.services)
    if (replicas[service.name] < service.min_replicas)
      refusals.push_back({plan::kNotFound, "service " + service.name, 1.0 * replicas[service.name],
                          1.0 * service.min_replicas, "the planner knows nothing of min_replicas"});
  const plan::FleetEntry& entry = problem.fleet.front();
  if (entry.count && plan.objective.gpus > *entry.count)
    refusals.push_back({plan::kNotFound, "fleet " + entry.gpu.name, 1.0 * *entry.count,
                        1.0 * plan.objective.gpus, "the planner needs more GPUs than there are"});
  return refusals;
}

int gpcs_in_use(const plan::PlannedGpu& gpu, const hw::GpuModel& model) {
  int gpcs = 0;
  for (const plan::PlannedInstance& instance : gpu.instances) {
    const auto at = static_cast<std::size_t>(model.profile_index(instance.profile));
    if (instance.share_percent != 0) return model.profiles[at].gpcs;  // the whole GPU's
    gpcs += model.profiles[at].gpcs;
  }
  return gpcs;
}

}  // namespace

plan::SloRule own_rule(const Baseline& baseline) {
  return {plan::SloRule::Kind::execution, baseline.own};
}

std::vector<Reason> cannot_plan(const Baseline& baseline, const plan::ServingProblem& problem) {
  if (problem.fleet.empty())
    return {{"fleet_count", "fleet", 0, 1, "there is no GPU model to plan for"}};
  if (problem.rule.kind != plan::SloRule::Kind::execution)
    return {{"slo_rule", "planner " + baseline.name, 0, 0,
             fmt::format("it plans by execution latency alone: --slo-rule {} is its own rule",
                         plan::to_string(own_rule(baseline)))}};
  if (auto reasons = cannot_survive(problem, baseline.name); !reasons.empty()) return reasons;
  const plan::ServingProblem used = as_baseline(problem);
  return unservable(used, {PointTables{best_points(used, used.fleet.front())}});
}

plan::ServingProblem as_baseline(const plan::ServingProblem& problem) {
  plan::ServingProblem used = problem;
  used.fleet = {problem.fleet.front()};
  used.max_processes = 1;
  std::erase_if(used.fleet.front().gpu.profiles, [](const auto& p) { return !p.plain(); });
  return used;
}

Millis latency_limit(const plan::ServingProblem& problem, const plan::Service& service) {
  return problem.rule.fraction * service.slo;
}

Reason beyond_one_gpu(const plan::Service& service, double most, const std::string& system) {
  return {"rate", "service " + service.name, most, service.rate.value,
          fmt::format("req/s that a whole GPU carries, and that arrive; {} gives a service one "
                      "share of one GPU",
                      system)};
}

Outcome too_many_gpus_for(const std::string& system) {
  return {std::nullopt,
          {{"limit", "fleet", 1.0 * kMaxBaselineGpus, 1.0 * kMaxBaselineGpus + 1,
            fmt::format("{} would need more GPUs than Partita plans for it", system)}}};
}

Outcome finish_baseline(std::vector<plan::PlannedGpu> gpus, const plan::ServingProblem& problem,
                        const Baseline& baseline, const Stopwatch& watch) {
  const plan::FleetEntry& entry = problem.fleet.front();
  plan::ServingPlan plan;
  for (plan::PlannedGpu& gpu : gpus) {
    gpu.index = plan.objective.gpus++;
    gpu.model = entry.gpu.name;
    std::ranges::stable_sort(gpu.instances, {}, &plan::PlannedInstance::start);
    plan.objective.gpcs += gpcs_in_use(gpu, entry.gpu);
  }
  plan.gpus = std::move(gpus);
  plan.objective.cost = plan.objective.gpus * entry.price;
  std::vector<Reason> refusals = unknown_wishes(plan, problem);
  if (!refusals.empty()) return {std::nullopt, std::move(refusals)};
  return complete({std::move(plan), {}}, problem, baseline.name, watch);
}

bool FirstFit::fits(Gpu& gpu, int profile, plan::PlannedInstance& instance) const {
  const auto at = static_cast<std::size_t>(profile);
  const hw::MigProfile& shape = gpu_.profiles[at];
  gpu.count.resize(gpu_.profiles.size());
  if (gpu.gpcs + shape.gpcs > gpu_.compute_slices || gpu.count[at] == shape.max_instances)
    return false;
  for (const int start : shape.starts) {
    const std::uint32_t span = ((1u << shape.size) - 1) << start;
    if (gpu.taken & span) continue;
    gpu.taken |= span;
    gpu.gpcs += shape.gpcs;
    ++gpu.count[at];
    instance.profile = shape.name;
    instance.start = start;
    gpu.instances.push_back(instance);
    return true;
  }
  return false;
}

void FirstFit::put(int profile, plan::PlannedInstance instance) {
  std::size_t& gpu = first_open_[static_cast<std::size_t>(profile)];
  while (gpu < gpus_.size() && !fits(gpus_[gpu], profile, instance)) ++gpu;
  if (gpu == gpus_.size()) fits(gpus_.emplace_back(), profile, instance);
}

std::vector<plan::PlannedGpu> FirstFit::take() && {
  std::vector<plan::PlannedGpu> planned;
  for (Gpu& gpu : gpus_) planned.push_back({0, "", std::move(gpu.instances)});
  return planned;
}

}  // namespace partita::planners::serving
