#include "planners/serving/on_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/index.h"
#include "planners/serving/finish.h"
#include "planners/serving/fleet.h"
#include "planners/serving/place.h"
#include "planners/serving/pool_oracle.h"
#include "planners/serving/pool_rows.h"

namespace partita::planners::serving {
namespace {

constexpr std::size_t kMostTried = 16;  // pools, by thorough checks
constexpr double kNearly = 0.97;        // of what the fullest GPU carries

bool is_for_it(const plan::ServingProblem& problem) {
  return problem.rule.kind == plan::SloRule::Kind::pooled && problem.services.size() == 1 &&
         problem.fleet.size() == 1 && problem.survive == 0 && !problem.goal &&
         !problem.services[0].spread &&
         problem.fleet[0].profiles.contains(problem.services[0].model);
}

// One of the fullest ways to use a GPU, as often as there are GPUs.
struct FullPool {
  PointTables tables;
  Counts counts{};
  PoolParts parts;
  double carries = 0;  // by the closed form
};

class FullPools {
 public:
  FullPools(const plan::ServingProblem& problem, int gpus, const Options& options)
      : problem_(problem), gpus_(gpus), oracle_(problem, options.pools) {}

  bool offer(const std::function<bool(plan::ServingPlan)>& accept) {
    std::vector<FullPool> pools = all();
    std::ranges::stable_sort(pools, std::ranges::greater(), &FullPool::carries);
    if (pools.size() > kMostTried) pools.resize(kMostTried);
    for (const FullPool& pool : pools) {
      if (!oracle_.check(service(), pool.parts).holds) continue;
      if (auto plan = plan_of(pool); plan && accept(*std::move(plan))) return true;
    }
    return false;
  }

 private:
  const plan::Service& service() const { return problem_.services[0]; }
  const plan::FleetEntry& entry() const { return problem_.fleet[0]; }

  // How long full batches of the service take that end within the SLO.
  std::set<double> lengths() const {
    std::set<double> lengths;
    for (const profile::ProfilePoint& point : entry().profiles.at(service().model).points)
      if (point.processes <= problem_.max_processes && profile::batch_time(point) <= service().slo)
        lengths.insert(profile::batch_time(point).value);
    return lengths;
  }

  // Some for each length of batch, without those that full batches overload.
  std::vector<FullPool> all() {
    std::vector<FullPool> pools;
    std::set<PoolParts> seen;
    for (const double longest : lengths()) {
      const PointTables tables{points_within(problem_, entry(), {Millis{longest}})};
      if (!fleet_) fleet_ = make_fleet(problem_, tables).value_or(Fleet{});
      if (fleet_->classes == 0) return {};
      for (const hw::Fill* fill : fullest(tables.front())) {
        FullPool pool = filled(tables, *fill);
        if (!seen.insert(pool.parts).second) continue;
        const model::Pool full = oracle_.pool_of(service(), pool.parts);
        if (model::fluid(full) <= plan::planning_rate(service())) continue;
        pool.carries = model::closed_form_capacity(full, planned_slo(service())).value;
        pools.push_back(std::move(pool));
      }
    }
    return pools;
  }

  static double each(const PointTable& table, std::size_t k) {
    return table.best[0][k] ? table.best[0][k]->throughput.value : 0;
  }

  // Ways to fill a GPU that carry most, or nearly: one of them may wait less for its batches.
  std::vector<const hw::Fill*> fullest(const PointTable& table) const {
    const auto carried = [&](const hw::Fill& fill) {
      double sum = 0;
      for (std::size_t k = 0; k < fill.counts.size(); ++k) sum += fill.counts[k] * each(table, k);
      return sum;
    };
    double most = 0;
    for (const hw::Fill& fill : fleet_->rules.front().fills) most = std::max(most, carried(fill));
    std::vector<const hw::Fill*> fullest;
    for (const hw::Fill& fill : fleet_->rules.front().fills)
      if (most > 0 && carried(fill) >= kNearly * most) fullest.push_back(&fill);
    return fullest;
  }

  FullPool filled(const PointTables& tables, const hw::Fill& fill) const {
    const PointTable& table = tables.front();
    FullPool pool;
    pool.tables = tables;
    for (std::size_t k = 0; k < fill.counts.size(); ++k) {
      if (fill.counts[k] == 0 || each(table, k) == 0) continue;
      const BestPoint& point = *table.best[0][k];
      const int gpcs = entry().gpu.profiles[at(table.profiles[k])].gpcs;
      pool.counts[k] = gpus_ * fill.counts[k];
      add(pool.parts, {0, gpcs, point.batch, point.processes, pool.counts[k]});
    }
    std::ranges::sort(pool.parts);
    return pool;
  }

  std::optional<plan::ServingPlan> plan_of(const FullPool& pool) {
    if (total(pool.counts) < service().min_replicas) return std::nullopt;
    Placement placed = place(problem_, pool.tables, *fleet_, {pool.counts}, {gpus_});
    if (!placed.gpus) return std::nullopt;
    plan::ServingPlan plan;
    plan.gpus = *std::move(placed.gpus);
    plan.gpu_model = entry().gpu.name;
    plan.planner = "exact";
    plan.rule = problem_.rule;
    plan.objective.gpus = static_cast<int>(plan.gpus.size());
    for (const PoolPart& part : pool.parts) plan.objective.gpcs += part.instances * part.gpcs;
    plan.objective.cost = plan.objective.gpus * entry().price;
    plan.explanation.push_back(
        fmt::format("of all pools on {} GPUs that which carries most in batches of its length",
                    plan.objective.gpus));
    fill_rows(problem_, plan, oracle_);
    return plan;
  }

  const plan::ServingProblem& problem_;
  const int gpus_;
  PoolOracle oracle_;
  std::optional<Fleet> fleet_;
};

}  // namespace

bool plan_on_gpus(const plan::ServingProblem& problem, int gpus, const Options& options,
                  const std::function<bool(plan::ServingPlan)>& accept) {
  if (!is_for_it(problem) || gpus < 1 || gpus > problem.fleet[0].count.value_or(gpus)) return false;
  return FullPools(problem, gpus, options).offer(accept);
}

}  // namespace partita::planners::serving
