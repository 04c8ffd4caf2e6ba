// The rate of a service, some minutes ahead: the shape of its day as it was learned (quarters of an
// hour; working days and weekends apart), lifted to what is measured now, and an interval that its
// own past errors say. Without history it is the rate of the services file. Values and pure
// functions; times are local. A rate is given once a minute.
//
//   level lift:  forecast(t) = (shape(t) + k) * (level + k) / (expected + k) - k
// where level and expected are exponentially weighted means of what was measured and of what the
// shape said then, and k is a twentieth of the highest of the shape. Where the shape at t was not
// learned as that of now was, the forecast is the level.
//
// The ends of the interval follow the errors of the forecasts made a horizon ago, as shares of the
// forecast: an error above the upper end raises it by kIntervalStep * coverage, any other lowers it
// by kIntervalStep * (1 - coverage). While no end of its range is reached, the share of errors
// above the end differs in n minutes from 1 - coverage by at most (range / step + 1) / n, whatever
// the rates are (online quantile tracking).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/settings.h"
#include "plan/serving.h"

namespace partita::control {

inline constexpr int kDaySlots = 96;  // quarters of an hour
inline constexpr int kShapes = 2;     // working days; weekends
inline constexpr std::int64_t kMinuteMs = 60'000;
inline constexpr double kIntervalStep = 0.05;
inline constexpr double kNarrowestInterval = 0.03, kWidestInterval = 3;  // times the forecast

// What was learned about a service.
struct ServiceForecast {
  std::string service;
  std::int64_t last_ms = 0;  // of the newest rate; 0: none
  double level = 0;          // of what was measured, exponentially weighted
  double expected = 0;       // of what the shape said at those times
  double worth = 1;          // of both, against one without a gap; below 1 after a long one
  double slot_sum = 0;       // of the slot under way: sum and number of rates
  int slot_count = 0;
  std::vector<double> shape;        // kShapes * kDaySlots rates
  std::vector<int> days;            // from how many days each was learned; 0: the services file
  double above = 0.1, below = 0.1;  // ends of the interval, shares of the forecast
  bool operator==(const ServiceForecast&) const = default;
};

struct Forecast {
  double rate = 0, low = 0, high = 0;
  bool operator==(const Forecast&) const = default;
};

// Nothing was learned yet: the rate, or the rates over the day, of the services file.
ServiceForecast begin_forecast(const plan::Service& service);

// With the mean rate of the minute that ended at `now_ms`, and what was forecast for it, if
// anything was.
struct MeasuredRate {
  std::int64_t now_ms = 0;
  double rate_rps = 0;
  std::optional<Forecast> forecast = {};
  std::int64_t over_ms = kMinuteMs;  // so long it was measured
};
ServiceForecast learned(ServiceForecast before, const MeasuredRate& rate,
                        const ForecastSettings& settings);

// For one moment, and the highest of all quarters until `until_ms`.
Forecast forecast_at(const ServiceForecast& known, std::int64_t time_ms);
Forecast highest_until(const ServiceForecast& known, std::int64_t now_ms, std::int64_t until_ms);

// Monday 0 .. Sunday 6, and the minute of the day.
int weekday(std::int64_t time_ms);
int minute_of_day(std::int64_t time_ms);

}  // namespace partita::control
