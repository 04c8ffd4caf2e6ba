#include "planners/power/response.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "model/queueing.h"

namespace partita::power {
namespace {

using plan::PowerPoint;

// What the model does at one clock on so many units: its batches, ascending.
struct PointGroup {
  std::size_t clock = 0;
  std::vector<PowerPoint> batches;
};

std::vector<PointGroup> groups_of(const plan::ResponseTable& table,
                                  const plan::ModelResponse& model) {
  std::vector<PointGroup> groups;
  for (const PowerPoint& point : model.points) {
    if (groups.empty() || groups.back().batches.front().clock != point.clock ||
        groups.back().batches.front().units != point.units) {
      const auto clock =
          std::ranges::lower_bound(table.clocks, point.clock, {}, &plan::ClockIdle::clock);
      groups.push_back({static_cast<std::size_t>(clock - table.clocks.begin()), {}});
    }
    groups.back().batches.push_back(point);
  }
  return groups;
}

Rps capacity_of(const profile::BatchCurve& curve, Rps most, const plan::Terms& service,
                plan::PowerPromise promise) {
  if (curve.steps.back().latency > service.slo) return {0};
  if (promise == plan::PowerPromise::execution) return most;
  return std::min(most, model::planning_capacity({curve, 1}, service.slo, service.percentile));
}

// What one service gets from the groups of its model.
class OptionMaker {
 public:
  OptionMaker(const plan::PowerProblem& problem, const plan::Terms& service)
      : table_(problem.table), promise_(problem.promise), service_(service) {}

  ServiceOptions make(const plan::ModelResponse& model, BatchChoice batches) const {
    ServiceOptions options(table_.clocks.size());
    for (const PointGroup& group : groups_of(table_, model)) add(group, batches, options);
    return options;
  }

 private:
  void add(const PointGroup& group, BatchChoice batches, ServiceOptions& options) const {
    ServiceOption option{group.clock, group.batches.front().units, 0, {0}, {}};
    const Watts idle = table_.clocks[group.clock].active_idle;
    profile::BatchCurve curve;
    for (const PowerPoint& point : group.batches) {
      option.batch = point.batch;
      curve.steps.push_back({point.batch, point.p95});
      const bool more = option.busy.steps.empty() || point.max_rate > option.busy.steps.back().rate;
      if (more) {
        option.busy.steps.push_back({point.max_rate, point.power - idle});
        option.capacity = capacity_of(curve, point.max_rate, service_, promise_);
        if (option.capacity.value > 0) options[group.clock].push_back(option);
      }
      if (batches == BatchChoice::one || option.capacity.value <= 0) break;
    }
  }

  const plan::ResponseTable& table_;
  const plan::PowerPromise promise_;
  const plan::Terms& service_;
};

}  // namespace

Watts BusyPower::at(Rps rate) const {
  Step before{{0}, {0}};
  for (const Step& step : steps) {
    if (rate <= step.rate)
      return before.power +
             (step.power - before.power) * ((rate - before.rate) / (step.rate - before.rate));
    before = step;
  }
  return before.power;
}

Watts BusyPower::full() const {
  Watts most{0};
  for (const Step& step : steps) most = std::max(most, step.power);
  return most;
}

std::vector<ServiceOptions> options_of(const plan::PowerProblem& problem, BatchChoice batches) {
  std::vector<ServiceOptions> all;
  // Services often differ in their rates alone.
  std::map<std::tuple<std::string, double, double>, ServiceOptions> made;
  for (const plan::Terms& service : problem.services) {
    const plan::ModelResponse* model = problem.table.find(service.model);
    const std::tuple key{service.model, service.slo.value, service.percentile};
    const auto [entry, fresh] = made.try_emplace(key);
    if (fresh && model) entry->second = OptionMaker(problem, service).make(*model, batches);
    all.push_back(entry->second);
    all.back().resize(problem.table.clocks.size());
  }
  return all;
}

Watts ready_power(const plan::ResponseTable& table, plan::Gating gating, std::size_t clock,
                  int used_units) {
  if (gating == plan::Gating::none) return table.clocks[clock].active_idle;
  int clocked = used_units;
  if (gating == plan::Gating::group) {
    clocked = 0;
    for (const int cluster : table.units_in)
      if (clocked < used_units) clocked += cluster;
  }
  return table.idle + clocked * table.unit_idle(clock);
}

Watts unused_power(const plan::PowerProblem& problem) {
  return problem.unused.value_or(problem.table.idle);
}

}  // namespace partita::power
