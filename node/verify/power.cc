#include "verify/power.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "verify/paced_queue.h"

namespace partita::verify {
namespace {

using plan::PowerPoint;
using plan::Reason;

constexpr double kPowerTolerance = 1e-6;

bool same(double a, double b) {
  return std::abs(a - b) <= kPowerTolerance * std::max({1.0, std::abs(a), std::abs(b)});
}

// The points of one model at one clock on so many units, up to the batch; empty if the table has
// not exactly that batch.
std::vector<PowerPoint> points_of(const plan::PowerProblem& problem, const std::string& model,
                                  Mhz clock, std::pair<int, int> units_batch) {
  std::vector<PowerPoint> points;
  const plan::ModelResponse* response = problem.table.find(model);
  if (!response) return points;
  for (const PowerPoint& point : response->points)
    if (point.clock == clock && point.units == units_batch.first &&
        point.batch <= units_batch.second)
      points.push_back(point);
  if (points.empty() || points.back().batch != units_batch.second) points.clear();
  return points;
}

std::optional<Watts> active_idle(const plan::ResponseTable& table, Mhz clock) {
  for (const plan::ClockIdle& one : table.clocks)
    if (one.clock == clock) return one.active_idle;
  return std::nullopt;
}

// Watts above the idle board: between the points whose rates lie around the rate, in proportion;
// points that carry no more than a smaller batch are no points.
double busy_watts(const std::vector<PowerPoint>& points, double rate, double idle) {
  double rate_below = 0, watts_below = 0;
  for (const PowerPoint& point : points) {
    if (point.max_rate.value <= rate_below) continue;
    const double watts = point.power.value - idle;
    if (rate <= point.max_rate.value) {
      const double share = (rate - rate_below) / (point.max_rate.value - rate_below);
      return watts_below * (1 - share) + watts * share;
    }
    rate_below = point.max_rate.value;
    watts_below = watts;
  }
  return watts_below;
}

// The board with so many units in use, none busy: gated units leave out their part of what is
// above rest.
double board_watts(const plan::PowerProblem& problem, plan::Gating gating, double idle, int used) {
  const plan::ResponseTable& table = problem.table;
  int gated = 0;
  if (gating == plan::Gating::unit) gated = table.units() - used;
  if (gating == plan::Gating::group) {
    int before = 0;
    for (const int cluster : table.units_in) {
      if (before >= used) gated += cluster;
      before += cluster;
    }
  }
  return idle - gated * (idle - table.idle.value) / table.units();
}

bool slo_holds(const plan::PowerProblem& problem, const plan::Terms& service,
               const std::vector<PowerPoint>& points, Rps rate) {
  if (points.back().p95 > service.slo) return false;
  double most = 0;
  for (const PowerPoint& point : points) most = std::max(most, point.max_rate.value);
  if (rate.value > most * (1 + kPowerTolerance)) return false;
  if (problem.promise == plan::PowerPromise::execution || rate.value <= 0) return true;
  profile::BatchCurve curve;
  for (const PowerPoint& point : points) curve.steps.push_back({point.batch, point.p95});
  return PacedQueue(curve, 1, rate).within(service.slo, service.percentile);
}

double most_watts(const std::vector<PowerPoint>& points, double idle) {
  double most = 0, rate = 0;
  for (const PowerPoint& point : points) {
    if (point.max_rate.value <= rate) continue;
    rate = point.max_rate.value;
    most = std::max(most, point.power.value - idle);
  }
  return most;
}

class PowerJudge {
 public:
  explicit PowerJudge(const plan::PowerProblem& problem) : problem_(problem) {
    for (const plan::Terms& service : problem.services) services_.emplace(service.name, &service);
  }

  std::vector<Reason> plan(const plan::PowerPlan& plan) {
    check_frame(plan.gating, plan.promise);
    const auto used = static_cast<int>(plan.gpus.size());
    if (plan.unused_gpus < 0 || used + plan.unused_gpus != problem_.gpus)
      say("gpus", "plan", used + plan.unused_gpus, problem_.gpus);
    std::map<std::string, double> carried;
    double sum = 0;
    for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
      check_gpu(fmt::format("gpu {}", g), plan.gpus[g]);
      sum += plan.gpus[g].power.value;
      for (const plan::PowerShare& share : plan.gpus[g].shares)
        carried[share.service] += share.rate.value;
    }
    for (const plan::Terms& service : problem_.services)
      if (!same(carried[service.name], service.rate.value))
        say("rate", "service " + service.name, carried[service.name], service.rate.value);
    sum += plan.unused_gpus * problem_.unused.value_or(problem_.table.idle).value;
    if (!same(sum, plan.power.value)) say("power", "plan", plan.power.value, sum);
    check_bound(plan.power.value, plan.bound.value);
    if (plan.optimal && plan.bound.value < plan.power.value * (1 - kPowerTolerance))
      say("bound", "plan", plan.bound.value, plan.power.value);
    return std::move(reasons_);
  }

  std::vector<Reason> schedule(const plan::PowerTrace& trace, const plan::TransitionCost& cost,
                               const plan::PowerSchedule& schedule) {
    check_frame(schedule.gating, schedule.promise);
    if (schedule.settings.size() != trace.rates.size()) {
      say("steps", "schedule", static_cast<double>(schedule.settings.size()),
          static_cast<double>(trace.rates.size()));
      return std::move(reasons_);
    }
    double energy = 0;
    int clocks = 0, units = 0;
    for (std::size_t t = 0; t < trace.rates.size() && reasons_.empty(); ++t) {
      const plan::Setting& setting = schedule.settings[t];
      if (t > 0) {
        clocks += schedule.settings[t - 1].clock != setting.clock;
        units += schedule.settings[t - 1].units != setting.units;
      }
      plan::PowerGpu gpu = gpu_of(setting, trace.rates[t]);
      energy += gpu.power.value * trace.step.value;
      check_gpu(fmt::format("at {:g} s", trace.step.value * static_cast<double>(t)), gpu);
    }
    if (!reasons_.empty()) return std::move(reasons_);
    check_rates();
    energy += clocks * cost.clock.value + units * cost.units.value;
    if (!same(energy, schedule.energy.value))
      say("energy", "schedule", schedule.energy.value, energy);
    if (clocks != schedule.clock_changes || units != schedule.unit_changes)
      say("changes", "schedule", schedule.clock_changes + schedule.unit_changes, clocks + units);
    check_bound(schedule.energy.value, schedule.bound.value);
    return std::move(reasons_);
  }

 private:
  void say(std::string word, std::string subject, double have, double need,
           std::string detail = "") {
    reasons_.push_back({std::move(word), std::move(subject), have, need, std::move(detail)});
  }

  void check_frame(plan::Gating gating, plan::PowerPromise promise) {
    if (gating != problem_.gating)
      say("gating", "plan", 0, 0,
          fmt::format("it counts on gating '{}', the problem says '{}'", to_string(gating),
                      to_string(problem_.gating)));
    if (promise != problem_.promise)
      say("promise", "plan", 0, 0,
          fmt::format("it promises '{}', asked for is '{}'", to_string(promise),
                      to_string(problem_.promise)));
  }

  void check_bound(double value, double bound) {
    if (bound > value * (1 + kPowerTolerance)) say("bound", "plan", bound, value);
  }

  // A setting as a GPU with its power recomputed; what it lacks is found by check_gpu.
  plan::PowerGpu gpu_of(const plan::Setting& setting, const std::vector<Rps>& rates) {
    plan::PowerGpu gpu{setting.clock, setting.cap.value_or(Watts{0}), {0}, {}};
    for (std::size_t s = 0; s < problem_.services.size(); ++s)
      gpu.shares.push_back({problem_.services[s].name,
                            s < setting.units.size() ? setting.units[s] : 0,
                            s < setting.batches.size() ? setting.batches[s] : 0, rates[s]});
    lazy_slo_ = true;
    gpu.power = {watts_of(gpu)};
    if (!setting.cap) gpu.cap = {full_watts(gpu)};
    return gpu;
  }

  // The board with its shares, each of which takes `busy(its points, it, watts of the idle board)`.
  template <class Busy>
  double sum_of(const plan::PowerGpu& gpu, const Busy& busy) {
    const auto idle = active_idle(problem_.table, gpu.clock);
    if (!idle) return 0;
    int used = 0;
    double watts = 0;
    for (const plan::PowerShare& share : gpu.shares) {
      used += share.units;
      watts += busy(points(gpu.clock, share), share, idle->value);
    }
    return watts + board_watts(problem_, problem_.gating, idle->value, used);
  }
  double watts_of(const plan::PowerGpu& gpu) {  // at the planned rates
    return sum_of(gpu, [](const auto& points, const plan::PowerShare& share, double idle) {
      return busy_watts(points, share.rate.value, idle);
    });
  }
  double full_watts(const plan::PowerGpu& gpu) {  // all shares always busy
    return sum_of(gpu, [](const auto& points, const plan::PowerShare&, double idle) {
      return most_watts(points, idle);
    });
  }

  // Looked up once per share's clock, units and batch.
  const std::vector<PowerPoint>& points(Mhz clock, const plan::PowerShare& share) {
    const auto service = services_.find(share.service);
    const std::string model = service == services_.end() ? "" : service->second->model;
    const std::tuple key{model, clock.value, share.units, share.batch};
    const auto found = points_.find(key);
    if (found != points_.end()) return found->second;
    return points_.emplace(key, points_of(problem_, model, clock, {share.units, share.batch}))
        .first->second;
  }

  void check_gpu(const std::string& where, const plan::PowerGpu& gpu) {
    if (!active_idle(problem_.table, gpu.clock)) {
      say("clock", where, gpu.clock.value, 0, "the table has no such clock");
      return;
    }
    std::set<std::string> there;
    int used = 0;
    for (const plan::PowerShare& share : gpu.shares) {
      const std::string subject = where + " " + share.service;
      used += share.units;
      if (!services_.contains(share.service) || !there.insert(share.service).second) {
        say("service", subject, 0, 0, "unknown, or twice on the GPU");
      } else if (points(gpu.clock, share).empty()) {
        say("point", subject, share.units, share.batch, "the table has no such units and batch");
      } else {
        check_slo(subject, gpu.clock, share);
      }
    }
    if (used > problem_.table.units()) say("units", where, used, problem_.table.units());
    if (!reasons_.empty()) return;
    const double watts = watts_of(gpu), full = full_watts(gpu);
    if (!same(watts, gpu.power.value)) say("power", where, gpu.power.value, watts);
    if (gpu.cap.value < full * (1 - kPowerTolerance)) say("cap", where, gpu.cap.value, full);
    if (problem_.cap && full > problem_.cap->value * (1 + kPowerTolerance))
      say("cap", where, full, problem_.cap->value);
  }

  // Steps of a schedule come back to the same settings: only the highest rate of each is asked.
  void check_slo(const std::string& subject, Mhz clock, const plan::PowerShare& share) {
    const plan::Terms& service = *services_.at(share.service);
    if (!lazy_slo_) {
      if (!slo_holds(problem_, service, points(clock, share), share.rate))
        say("slo", subject, share.rate.value, service.slo.value,
            fmt::format("at {:g} requests/s more are late than p{:g} allows", share.rate.value,
                        service.percentile));
      return;
    }
    auto& [most, where] = asked_[{share.service, clock.value, share.units, share.batch}];
    if (where.empty() || share.rate > most) most = share.rate, where = subject;
  }

  void check_rates() {
    for (const auto& [key, asked] : asked_) {
      const auto& [name, clock, units, batch] = key;
      const plan::Terms& service = *services_.at(name);
      if (!slo_holds(problem_, service, points(Mhz{clock}, {name, units, batch, asked.first}),
                     asked.first))
        say("slo", asked.second, asked.first.value, service.slo.value);
    }
  }

  const plan::PowerProblem& problem_;
  std::map<std::string, const plan::Terms*> services_;
  std::map<std::tuple<std::string, double, int, int>, std::vector<PowerPoint>> points_;
  std::map<std::tuple<std::string, double, int, int>, std::pair<Rps, std::string>> asked_;
  bool lazy_slo_ = false;
  std::vector<Reason> reasons_;
};

}  // namespace

std::vector<Reason> verify(const plan::PowerProblem& problem, const plan::PowerPlan& plan) {
  return PowerJudge(problem).plan(plan);
}

std::vector<Reason> verify(const plan::PowerProblem& problem, const plan::PowerTrace& trace,
                           const plan::TransitionCost& cost, const plan::PowerSchedule& schedule) {
  return PowerJudge(problem).schedule(trace, cost, schedule);
}

}  // namespace partita::verify
