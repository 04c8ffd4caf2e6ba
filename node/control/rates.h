// Rates: what arrives, what is forecast, and what a service needs by that. The brain of that; it
// knows no node and no plan. A step of pipelines has what its own clients ask for, which is
// forecast, and what follows from the pipelines (own_rates.h). Internal to control.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/gpu_clock.h"
#include "control/meters.h"
#include "control/world.h"

namespace partita::control {

// What a service needs.
struct ServiceNeed {
  std::optional<double> now_rps;  // that is measured
  double soon_rps = 0;            // within the horizon of forecasts
  double later_rps = 0;           // within that, or as long as a plan is to last
  bool operator==(const ServiceNeed&) const = default;
};

// What arrives at a service, and what is forecast.
struct RateNow {
  Meters::Reading reading;           // nothing in it, where no gateway says anything
  std::optional<Forecast> forecast;  // within the horizon; nothing where rates are not known
};

class Rates {
 public:
  explicit Rates(const Settings& settings) : settings_(settings) {}

  // Other services are wanted; what was learned of them is `known`, or what is known here.
  void begin(const std::vector<plan::Service>& services, std::vector<ServiceForecast> known);
  void begin(const std::vector<plan::Service>& services) { begin(services, meters_.known()); }
  // What the gateway says, if it says anything.
  void see(const ServersSeen& servers, std::int64_t now_ms);
  // Whether a minute ended in the last see().
  bool minute_ended() const { return meters_.minute_ended(); }

  // By service, in their order.
  std::vector<RateNow> now(const std::vector<plan::Service>& services) const;
  std::vector<ServiceNeed> needs(const std::vector<plan::Service>& services) const;
  // What each asks for at the most until the next looks.
  std::map<std::string, ClockedRate> clocked(const std::vector<plan::Service>& services) const;
  const std::vector<ServiceForecast>& known() const { return meters_.known(); }

 private:
  Meters::Reading reading(const std::string& service) const;
  // The highest within so long.
  std::optional<Forecast> forecast(const std::string& service, double ahead_s) const;
  // Of services at their own rates.
  double need(const plan::Service& service, double ahead_s) const;

  Settings settings_;
  Meters meters_;
  std::int64_t local_ms_ = 0;
  bool gateway_ = false;
};

}  // namespace partita::control
