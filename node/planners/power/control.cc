#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planners/power/controller.h"
#include "planners/power/policies.h"

namespace partita::power {
namespace {

// What one service is expected to ask for until the next poll.
class Forecast {
 public:
  explicit Forecast(const ControlOptions& options) : options_(options) {}

  Rps next(const ServiceSeen& seen) {
    const double poll = options_.poll.value;
    const double count = std::max(0.0, seen.rate.value) * poll;
    double rate = (count + options_.guard * std::sqrt(count)) / poll;
    if (options_.memory.value > 0) rate = std::max({rate, ahead(count) / poll, remembered(rate)});
    return {rate};
  }

 private:
  // Holt's level and trend one poll ahead, with `guard` standard deviations of what it missed by.
  double ahead(double count) {
    constexpr double kLevel = 0.4, kTrend = 0.15, kError = 0.1;
    if (!begun_) {
      level_ = count;
      begun_ = true;
    }
    const double error = count - (level_ + trend_);
    squares_ += kError * (error * error - squares_);
    const double before = level_;
    level_ += trend_ + kLevel * error;
    trend_ += kTrend * (level_ - before - trend_);
    return std::max(0.0, level_ + trend_) + options_.guard * std::sqrt(squares_);
  }

  // The highest of the last `memory` seconds.
  double remembered(double rate) {
    const auto most = static_cast<std::size_t>(
        std::max(1.0, std::round(options_.memory.value / options_.poll.value)));
    past_.push_back(rate);
    if (past_.size() > most) past_.erase(past_.begin());
    return *std::ranges::max_element(past_);
  }

  ControlOptions options_;
  std::vector<double> past_;
  bool begun_ = false;
  double level_ = 0, trend_ = 0, squares_ = 0;
};

class PolicyController final : public Controller {
 public:
  PolicyController(Chooser chooser, const ControlOptions& options)
      : chooser_(std::move(chooser)), options_(options), now_(chooser_.most()) {
    forecasts_.assign(chooser_.problem().services.size(), Forecast(options));
  }

  Seconds poll() const override { return options_.poll; }
  Setting start() const override { return to_setting_of(chooser_.most()); }

  Setting decide(const Observation& seen) override {
    std::vector<Rps> rates;
    for (std::size_t s = 0; s < forecasts_.size(); ++s)
      rates.push_back(forecasts_[s].next(seen.services[s]));
    GpuSetting next = chooser_.choose(rates).value_or(chooser_.most());
    if (options_.rescue && in_need(seen, next)) {
      next = chooser_.most();
      calm_ = 0;
    } else if (takes_less(next, rates)) {
      if (++calm_ < options_.hysteresis) next = now_;
    } else {
      calm_ = 0;
    }
    now_ = next;
    return to_setting_of(now_);
  }

 private:
  Setting to_setting_of(const GpuSetting& setting) const {
    return to_setting(chooser_.problem().table, chooser_.policy().gating, setting);
  }

  bool takes_less(const GpuSetting& next, const std::vector<Rps>& rates) const {
    const plan::ResponseTable& table = chooser_.problem().table;
    const plan::Gating gating = chooser_.policy().gating;
    return power_at(table, gating, next, rates) < power_at(table, gating, now_, rates);
  }

  // Whether requests have been late for some polls, or those that wait would be under the next
  // setting. A few dozen requests tell little of their p95: one poll above the SLO is chance.
  bool in_need(const Observation& seen, const GpuSetting& next) {
    constexpr int kLatePolls = 3;
    const auto late = [&](std::size_t s) {
      return seen.services[s].p95 && *seen.services[s].p95 > chooser_.problem().services[s].slo;
    };
    bool any = false;
    for (std::size_t s = 0; s < seen.services.size(); ++s) any = any || late(s);
    late_polls_ = any ? late_polls_ + 1 : 0;
    if (late_polls_ >= kLatePolls) return true;
    for (std::size_t s = 0; s < seen.services.size(); ++s) {
      const ServiceSeen& one = seen.services[s];
      const plan::Terms& service = chooser_.problem().services[s];
      const double full = next.options[s]->busy.steps.back().rate.value;
      if (one.waiting && *one.waiting > full * service.slo.value * 1e-3) return true;
    }
    return false;
  }

  const Chooser chooser_;
  const ControlOptions options_;
  std::vector<Forecast> forecasts_;
  GpuSetting now_;
  int late_polls_ = 0;
  int calm_ = 0;  // polls in a row for which less would have done
};

}  // namespace

Result<std::unique_ptr<Controller>> make_controller(const plan::PowerProblem& problem,
                                                    const ControlOptions& options) {
  const Policy policy = TRY(policy_named(options.policy, problem.gating));
  if (!(options.poll.value > 0)) return bad_input("--poll", "must be above 0");
  Chooser chooser = TRY(Chooser::make(problem, policy, options.given));
  return std::make_unique<PolicyController>(std::move(chooser), options);
}

}  // namespace partita::power
