#include "control/rates.h"

#include <algorithm>
#include <cmath>

#include "act/gateway_state.h"
#include "control/own_rates.h"
#include "forms/pipeline_form.h"

namespace partita::control {
namespace {

constexpr double kGrid = 1.05;  // planned rates are powers of it: noise moves none

double on_grid(double rate) {
  if (rate <= 0) return 0;
  return std::pow(kGrid, std::ceil(std::log(rate) / std::log(kGrid) - 1e-9));
}

// The highest rate that the services file says.
double most_wanted(const plan::Service& service) {
  double most = service.rate.value;
  for (const plan::RateAt& one : service.traffic.rates) most = std::max(most, one.rate.value);
  return most;
}

}  // namespace

void Rates::begin(const std::vector<plan::Service>& services, std::vector<ServiceForecast> known) {
  meters_.begin(forms::at_own_rates(services), std::move(known));
}

void Rates::see(const ServersSeen& servers, std::int64_t now_ms) {
  local_ms_ = now_ms + settings_.utc_offset_min * kMinuteMs;
  gateway_ = servers.gateway;
  // What a gateway that hangs said last is no sign that nothing comes any more.
  if (!servers.gateway || servers.gateway_age_s > actuate::kGatewayFreshS)
    return meters_.see_nothing();
  const auto age_ms = static_cast<std::int64_t>(servers.gateway_age_s * 1000);
  meters_.see(servers, local_ms_ - age_ms, settings_.forecast);
}

Meters::Reading Rates::reading(const std::string& service) const {
  return meters_.reading(service, local_ms_);
}

std::optional<Forecast> Rates::forecast(const std::string& service, double ahead_s) const {
  return meters_.forecast(service, local_ms_,
                          local_ms_ + static_cast<std::int64_t>(ahead_s * 1000));
}

double Rates::need(const plan::Service& service, double ahead_s) const {
  const auto ahead = forecast(service.name, ahead_s);
  if (!ahead) {  // nothing is measured: as the services file says
    if (service.traffic.rates.empty()) return service.rate.value;
    const std::int64_t until = local_ms_ + static_cast<std::int64_t>(ahead_s * 1000);
    double most = 0;
    for (std::int64_t time = local_ms_; time <= until; time += 5 * kMinuteMs)
      most = std::max(most, plan::rate_at(service.traffic.rates, minute_of_day(time)).value);
    return most;
  }
  const ForecastSettings& policy = settings_.forecast;
  const double wanted = most_wanted(service);
  const double high = std::max(ahead->high, reading(service.name).rate.value_or(0));
  return on_grid(std::clamp(high, policy.floor_share * wanted, policy.cap_share * wanted));
}

namespace {

// With what a pipeline makes of its own; nothing where nobody knows that.
std::optional<double> plus(std::optional<double> rate, std::optional<double> pipeline,
                           double requests) {
  if (!rate || !pipeline) return std::nullopt;
  return *rate + *pipeline * requests;
}

std::optional<Forecast> plus(std::optional<Forecast> of, const std::optional<Forecast>& pipeline,
                             double requests) {
  if (!of || !pipeline) return std::nullopt;
  return Forecast{of->rate + pipeline->rate * requests, of->low + pipeline->low * requests,
                  of->high + pipeline->high * requests};
}

}  // namespace

std::vector<RateNow> Rates::now(const std::vector<plan::Service>& services) const {
  std::vector<RateNow> rates;
  for (const plan::Service& one : services)
    rates.push_back({gateway_ ? reading(one.name) : Meters::Reading{},
                     forecast(one.name, settings_.forecast.horizon_s)});
  for (const StepRequests& one : step_requests(services)) {
    RateNow& step = rates[one.step];
    const RateNow& pipeline = rates[one.pipeline];
    step.reading.rate = plus(step.reading.rate, pipeline.reading.rate, one.requests);
    step.forecast = plus(step.forecast, pipeline.forecast, one.requests);
  }
  return rates;
}

std::vector<ServiceNeed> Rates::needs(const std::vector<plan::Service>& services) const {
  const double soon = settings_.forecast.horizon_s;
  const double later = std::max(settings_.damping.lasts_s, soon);
  std::vector<ServiceNeed> needs;
  for (const plan::Service& one : forms::at_own_rates(services))
    needs.push_back({reading(one.name).rate, need(one, soon), need(one, later)});
  for (const StepRequests& one : step_requests(services)) {
    ServiceNeed& step = needs[one.step];
    const ServiceNeed& pipeline = needs[one.pipeline];
    step.now_rps = plus(step.now_rps, pipeline.now_rps, one.requests);
    step.soon_rps += pipeline.soon_rps * one.requests;
    step.later_rps += pipeline.later_rps * one.requests;
  }
  return needs;
}

std::map<std::string, ClockedRate> Rates::clocked(
    const std::vector<plan::Service>& services) const {
  std::map<std::string, ClockedRate> rates;
  if (!gateway_) return rates;
  for (const plan::Service& one : services) {
    const Meters::Reading now = reading(one.name);
    if (!now.rate) continue;
    const auto ahead = forecast(one.name, 2 * std::max(1.0, settings_.look_s));  // two looks
    rates[one.name] = {std::max(*now.rate, ahead ? ahead->high : 0.0), now.p99_ms};
  }
  for (const StepRequests& one : step_requests(services)) {
    const auto step = rates.find(services[one.step].name);
    const auto pipeline = rates.find(services[one.pipeline].name);
    if (step == rates.end()) continue;
    if (pipeline == rates.end())
      rates.erase(step);
    else
      *step->second.rps += *pipeline->second.rps * one.requests;
  }
  return rates;
}

}  // namespace partita::control
