#include "planners/serving/pool_rows.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "base/index.h"
#include "planners/serving/set_points.h"
#include "planners/serving/token_points.h"

namespace partita::planners::serving {

void add(PoolParts& parts, const PoolPart& part) {
  for (PoolPart& same : parts) {
    if (std::tie(same.entry, same.gpcs, same.batch, same.processes) !=
        std::tie(part.entry, part.gpcs, part.batch, part.processes))
      continue;
    same.instances += part.instances;
    return;
  }
  parts.push_back(part);
}

std::vector<PoolParts> pools_of(const plan::ServingProblem& problem,
                                const plan::ServingPlan& plan) {
  std::map<std::string, std::size_t> index;
  for (std::size_t s = 0; s < problem.services.size(); ++s)
    index.emplace(problem.services[s].name, s);
  std::vector<PoolParts> pools(problem.services.size());
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    std::size_t entry = 0;
    while (problem.fleet[entry].gpu.name != gpu.model) ++entry;
    const hw::GpuModel& model = problem.fleet[entry].gpu;
    for (const plan::PlannedInstance& instance : gpu.instances) {
      const int gpcs = model.profiles[at(model.profile_index(instance.profile))].gpcs;
      add(pools[index.at(instance.service)], {entry, gpcs, instance.batch, instance.processes, 1});
    }
  }
  for (PoolParts& parts : pools) std::sort(parts.begin(), parts.end());
  return pools;
}

void fill_rows(const plan::ServingProblem& problem, plan::ServingPlan& plan, PoolOracle& oracle) {
  const std::vector<PoolParts> pools = pools_of(problem, plan);
  std::map<std::string, std::size_t> index;
  for (const plan::Service& service : problem.services) {
    index.emplace(service.name, plan.services.size());
    plan.services.push_back(plan::row_of(service, problem.rule));
  }
  const auto each = [&](const auto& visit) {
    for (plan::PlannedGpu& gpu : plan.gpus)
      for (plan::PlannedInstance& instance : gpu.instances)
        visit(instance, index.at(instance.service));
  };
  std::vector<double> full(pools.size(), 0), share(pools.size(), 0);
  each([&](const plan::PlannedInstance& instance, std::size_t s) {
    full[s] += instance.throughput.value;
  });
  for (std::size_t s = 0; s < pools.size(); ++s) {
    if (pools[s].empty() || plan::adds_up(problem.services[s])) continue;
    const PoolOracle::Answer answer = oracle.check(problem.services[s], pools[s]);
    share[s] = std::min(answer.capacity.value, full[s]) / full[s];
    plan.services[s].predicted_latency = answer.percentile;
  }
  SetOracle sets(problem);
  for (std::size_t s = 0; s < pools.size(); ++s) {
    const plan::Service& service = problem.services[s];
    if (service.tokens) fill_token_row(problem, service, plan, plan.services[s]);
    if (service.models) sets.fill_row(service, plan, plan.services[s]);
  }
  each([&](plan::PlannedInstance& instance, std::size_t s) {
    if (plan::adds_up(problem.services[s])) return;
    instance.throughput = instance.throughput * share[s];
    plan.services[s].planned += instance.throughput;
  });
}

}  // namespace partita::planners::serving
