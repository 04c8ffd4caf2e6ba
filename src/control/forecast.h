// The rate of a service, some minutes ahead: the shape of its day as it was learned (by quarters of
// an hour and days of the week), lifted to what is measured now, and an interval that its own past
// errors say. Without history it is the rate of the services file. Values and pure functions; a
// rate is given once a minute.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/settings.h"
#include "plan/serving.h"

namespace partita::control {

inline constexpr int kDaySlots = 96;  // quarters of an hour
inline constexpr int kWeekDays = 7;
inline constexpr std::int64_t kMinuteMs = 60'000;

// What was learned about a service.
struct ServiceForecast {
  std::string service;
  std::int64_t last_ms = 0;         // of the newest rate; 0: none
  double level = 0;                 // of the deviation from the shape, exponentially weighted
  double weight = 0;                // how much of the level was measured, 0 .. 1
  std::vector<double> shape;        // kDaySlots means; the file's rate where nothing was learned
  std::vector<double> slot_sum;     // of the slot under way: sum and count of rates
  std::vector<double> day_factors;  // kWeekDays; 1 where nothing was learned
  double above = 0, below = 0;      // ends of the interval, shares of the forecast
  struct Made {                     // forecasts whose time has not come
    std::int64_t for_ms = 0;
    double rate = 0;
    bool operator==(const Made&) const = default;
  };
  std::vector<Made> made;
  bool operator==(const ServiceForecast&) const = default;
};

struct Forecast {
  double rate = 0, low = 0, high = 0;
  bool operator==(const Forecast&) const = default;
};

// Nothing was learned yet: the rate, or the rates over the day, of the services file.
ServiceForecast begin_forecast(const plan::Service& service, const ForecastSettings& settings);

// With the mean rate of the minute that ended at `now_ms` (local time).
ServiceForecast learned(ServiceForecast before, std::int64_t now_ms, double rate_rps,
                        const ForecastSettings& settings);

// For one moment, and the highest of all moments until `until_ms`.
Forecast forecast_at(const ServiceForecast& known, std::int64_t time_ms);
Forecast forecast_until(const ServiceForecast& known, std::int64_t now_ms, std::int64_t until_ms);

}  // namespace partita::control
