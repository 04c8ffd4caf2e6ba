#include "planners/serving/points.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "hw/layout.h"
#include "planners/serving/instance_rates.h"
#include "planners/serving/set_points.h"
#include "planners/serving/token_points.h"

namespace partita::planners::serving {
namespace {

using profile::ProfilePoint;
using profile::WorkloadProfile;

// The points of one model on one size, ready to be asked by many services. Rates under the queueing
// rule are remembered: services that share model, SLO and percentile ask the same question.
class RateOracle {
 public:
  RateOracle(const plan::ServingProblem& problem, const plan::FleetEntry& entry)
      : problem_(problem), entry_(entry), rates_(problem.rule.dispatch) {}

  std::optional<BestPoint> best(const plan::Service& service, const hw::MigProfile& shape) {
    const auto found = entry_.profiles.find(service.model);
    if (found == entry_.profiles.end()) return std::nullopt;
    if (problem_.rule.kind == plan::SloRule::Kind::execution)
      return best_by_execution(found->second, problem_.rule.fraction * service.slo, shape);
    const Key key{service.model, shape.nvml_enum, service.slo.value, service.percentile};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(key, best_by_queueing(found->second, service, shape)).first->second;
  }

  // What full batches that take at most so long carry.
  std::optional<BestPoint> best_within(const WorkloadProfile& profile, Millis longest,
                                       const hw::MigProfile& shape) const {
    std::optional<BestPoint> best;
    for (const ProfilePoint& point :
         std::ranges::equal_range(profile.points, shape.gpcs, {}, &ProfilePoint::gpcs)) {
      if (point.latency > longest || !usable(point, shape)) continue;
      const Millis time = profile::batch_time(point);
      if (time > longest) continue;
      const BestPoint full{point.batch, point.processes, full_rate(point), point.latency, time};
      const auto key = [](const BestPoint& p) {
        return std::tuple(-p.throughput.value, p.time, p.processes, p.batch);
      };
      if (!best || key(full) < key(*best)) best = full;
    }
    return best;
  }

 private:
  using Key = std::tuple<std::string, int, double, double>;

  bool usable(const ProfilePoint& point, const hw::MigProfile& shape) const {
    return point.gpcs == shape.gpcs && point.processes <= problem_.max_processes &&
           !(point.memory && shape.memory && *point.memory > *shape.memory);
  }

  std::optional<BestPoint> best_by_execution(const WorkloadProfile& profile, Millis limit,
                                             const hw::MigProfile& shape) const {
    const ProfilePoint* best = nullptr;
    const auto better = [](const ProfilePoint& a, const ProfilePoint& b) {
      return std::tuple(-a.throughput.value, a.latency, a.processes, a.batch) <
             std::tuple(-b.throughput.value, b.latency, b.processes, b.batch);
    };
    for (const ProfilePoint& point : profile.points)
      if (point.latency < limit && usable(point, shape) && (!best || better(point, *best)))
        best = &point;
    if (!best) return std::nullopt;
    return BestPoint{best->batch, best->processes, best->throughput, best->latency,
                     profile::batch_time(*best)};
  }

  // Points in descending measured throughput; a point cannot carry more than that, so the search
  // ends early.
  std::optional<BestPoint> best_by_queueing(const WorkloadProfile& profile,
                                            const plan::Service& service,
                                            const hw::MigProfile& shape) {
    std::vector<const ProfilePoint*> points;
    for (const ProfilePoint& point : profile.points)
      if (usable(point, shape) && profile::batch_time(point) <= service.slo)
        points.push_back(&point);
    std::sort(points.begin(), points.end(), [](const ProfilePoint* a, const ProfilePoint* b) {
      return std::tuple(-a->throughput.value, a->processes, a->batch) <
             std::tuple(-b->throughput.value, b->processes, b->batch);
    });
    std::optional<BestPoint> best;
    for (const ProfilePoint* point : points) {
      if (best && point->throughput <= best->throughput) break;
      const InstanceRates::Asked asked{entry_.gpu.name, profile, *point, service};
      if (best && !rates_.may_exceed(asked, best->throughput)) continue;
      const Rps rate = rates_.rate(asked);
      if (rate.value > 0 && (!best || rate > best->throughput))
        best = BestPoint{point->batch, point->processes, rate, point->latency,
                         profile::batch_time(*point)};
    }
    return best;
  }

  const plan::ServingProblem& problem_;
  const plan::FleetEntry& entry_;
  std::map<Key, std::optional<BestPoint>> known_;
  InstanceRates rates_;
};

// The double-memory 1g is worth considering when some point of a service fits only there, or models
// of a set share the memory.
bool needs_double_memory(const plan::ServingProblem& problem, const plan::FleetEntry& entry,
                         const hw::MigProfile& plain, const hw::MigProfile& wide) {
  if (!plain.memory || !wide.memory || plain.gpcs != wide.gpcs) return false;
  for (const plan::Service& service : problem.services) {
    const auto found = entry.profiles.find(service.model);
    if (found == entry.profiles.end()) continue;
    if (service.models) return true;
    for (const ProfilePoint& point : found->second.points)
      if (point.gpcs == plain.gpcs && point.memory && *point.memory > *plain.memory &&
          *point.memory <= *wide.memory)
        return true;
  }
  return false;
}

std::vector<int> usable_profiles(const plan::ServingProblem& problem,
                                 const plan::FleetEntry& entry) {
  std::vector<int> profiles = hw::plain_profiles(entry.gpu);
  const auto& all = entry.gpu.profiles;
  for (std::size_t wide = 0; wide < all.size(); ++wide) {
    if (!all[wide].double_memory()) continue;
    const auto needed = [&](int plain) {
      return needs_double_memory(problem, entry, all[static_cast<std::size_t>(plain)], all[wide]);
    };
    if (std::any_of(profiles.begin(), profiles.end(), needed))
      profiles.push_back(static_cast<int>(wide));
  }
  std::sort(profiles.begin(), profiles.end(), [&](int a, int b) {
    const auto key = [&](int p) {
      const hw::MigProfile& shape = all[static_cast<std::size_t>(p)];
      return std::tuple(shape.gpcs, shape.size, p);
    };
    return key(a) < key(b);
  });
  return profiles;
}

// The closest that any measured point comes to the service's rule, for the explanation.
plan::Reason missed_slo(const plan::ServingProblem& problem, const plan::Service& service) {
  const bool execution = problem.rule.kind == plan::SloRule::Kind::execution;
  double fastest = std::numeric_limits<double>::infinity();
  bool fits_memory = false;
  for (const plan::FleetEntry& entry : problem.fleet) {
    const auto found = entry.profiles.find(service.model);
    if (found == entry.profiles.end()) continue;
    for (const ProfilePoint& point : found->second.points) {
      if (point.processes > problem.max_processes) continue;
      for (const hw::MigProfile& shape : entry.gpu.profiles) {
        if (shape.gpcs != point.gpcs || !(shape.plain() || shape.double_memory())) continue;
        if (point.memory && shape.memory && *point.memory > *shape.memory) continue;
        fits_memory = true;
        const Millis time = execution ? point.latency : profile::batch_time(point);
        fastest = std::min(fastest, time.value);
      }
    }
  }
  const std::string subject = "service " + service.name;
  if (!fits_memory)
    return {"memory", subject, 0, 0,
            fmt::format("no measured point of model {} fits any instance", service.model)};
  const double need = execution ? problem.rule.fraction * service.slo.value : service.slo.value;
  if (execution)
    return {"slo", subject, fastest, need,
            fmt::format("the fastest measured batch takes {:.4g} ms, the rule asks for less than "
                        "{:.4g} ms ({:g} x {:g} ms): missed by {:.4g} ms",
                        fastest, need, problem.rule.fraction, service.slo.value, fastest - need)};
  return {
      "slo", subject, fastest, need,
      fmt::format("the fastest measured batch takes {:.4g} ms, which leaves no rate whose p{:g} "
                  "latency is within {:g} ms",
                  fastest, service.percentile, service.slo.value)};
}

}  // namespace

Rps full_rate(const ProfilePoint& point) {
  return std::min(point.throughput, Rps{1e3 * point.batch * point.processes / point.latency.value});
}

double demand_of(const plan::ServingProblem& problem, const PointTables& tables,
                 std::size_t service) {
  return tables.empty() || tables.front().demand.empty()
             ? plan::planning_rate(problem.services[service]).value
             : tables.front().demand[service];
}

PointTable points_within(const plan::ServingProblem& problem, const plan::FleetEntry& entry,
                         const std::vector<Millis>& longest) {
  PointTable table{.profiles = usable_profiles(problem, entry), .best = {}, .longest = longest};
  const RateOracle oracle(problem, entry);
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    std::vector<std::optional<BestPoint>>& row = table.best.emplace_back(table.profiles.size());
    const auto found = entry.profiles.find(problem.services[s].model);
    if (found == entry.profiles.end() || longest[s].value <= 0) continue;
    for (std::size_t k = 0; k < row.size(); ++k)
      row[k] =
          oracle.best_within(found->second, longest[s], entry.gpu.profiles[at(table.profiles[k])]);
  }
  return table;
}

PointTable best_points(const plan::ServingProblem& problem, const plan::FleetEntry& entry) {
  PointTable table{usable_profiles(problem, entry), {}};
  RateOracle oracle(problem, entry);
  table.best.reserve(problem.services.size());
  for (const plan::Service& service : problem.services) {
    std::vector<std::optional<BestPoint>> row;
    row.reserve(table.profiles.size());
    for (const int p : table.profiles)
      row.push_back(oracle.best(service, entry.gpu.profiles[static_cast<std::size_t>(p)]));
    table.best.push_back(std::move(row));
  }
  return table;
}

std::vector<plan::Reason> unservable(const plan::ServingProblem& problem,
                                     const std::vector<PointTables>& modes) {
  std::vector<plan::Reason> reasons;
  for (std::size_t s = 0; s < problem.services.size(); ++s) {
    const auto served = [&](const PointTable& table) {
      return std::any_of(table.best[s].begin(), table.best[s].end(),
                         [](const auto& point) { return point.has_value(); });
    };
    if (std::any_of(modes.begin(), modes.end(), [&](const PointTables& tables) {
          return std::any_of(tables.begin(), tables.end(), served);
        }))
      continue;
    const plan::Service& service = problem.services[s];
    if (plan::adds_up(service)) {
      reasons.push_back(service.tokens ? missed_tokens(problem, service)
                                       : missed_set(problem, service));
      continue;
    }
    const auto profiled = [&](const plan::FleetEntry& entry) {
      const auto found = entry.profiles.find(service.model);
      return found != entry.profiles.end() && !found->second.points.empty();
    };
    if (std::any_of(problem.fleet.begin(), problem.fleet.end(), profiled))
      reasons.push_back(missed_slo(problem, service));
    else
      reasons.push_back(
          {"unknown_model", "service " + service.name, 0, 0,
           fmt::format("model {} has no measured point in the profiles", service.model)});
  }
  return reasons;
}

}  // namespace partita::planners::serving
