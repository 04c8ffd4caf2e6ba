#include "control/forecast.h"

#include <algorithm>
#include <cmath>

#include "plan/traffic.h"

namespace partita::control {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
constexpr int kSlotMinutes = 15;
constexpr int kFirstWeekday = 3;      // 1 January 1970 was a Thursday
constexpr int kFewestRates = 5;       // of a slot that is learned from
constexpr double kSteady = 0.05;      // of the highest of the shape: keeps ratios tame
constexpr double kHighestRate = 1e9;  // what is above is no rate
constexpr double kShortGapMs = 10.0 * kMinuteMs;
constexpr double kLeastRate = 1e-3;  // for services that nobody calls

std::size_t slot_of(std::int64_t time_ms) {
  const int shape = weekday(time_ms) >= 5 ? 1 : 0;
  return static_cast<std::size_t>(shape * kDaySlots + minute_of_day(time_ms) / kSlotMinutes);
}

// What the shape says at a time, and whether that was learned.
struct Shaped {
  double rate = 0;
  bool learned = false;
};

Shaped at_slot(const ServiceForecast& known, std::size_t slot) {
  if (known.days[slot] > 0) return {known.shape[slot], true};
  // A weekend that was not seen yet is as other days are.
  const std::size_t other = slot % kDaySlots;
  return {known.shape[other], known.days[other] > 0};
}

// Between the middles of the slots a straight line.
Shaped shaped(const ServiceForecast& known, std::int64_t time_ms) {
  const std::int64_t slot_ms = kSlotMinutes * kMinuteMs;
  const std::int64_t into = time_ms % slot_ms;
  const std::int64_t other_ms = into * 2 < slot_ms ? time_ms - slot_ms : time_ms + slot_ms;
  const Shaped here = at_slot(known, slot_of(time_ms));
  const Shaped other = at_slot(known, slot_of(std::max<std::int64_t>(other_ms, 0)));
  if (here.learned != other.learned) return here;
  const double away =
      std::abs(static_cast<double>(into) / static_cast<double>(slot_ms) - 0.5);  // 0 .. 0.5
  return {here.rate * (1 - away) + other.rate * away, here.learned};
}

double steady(const ServiceForecast& known) {
  return std::max(kSteady * *std::ranges::max_element(known.shape), kLeastRate);
}

double scale_of(const ServiceForecast& known, double rate) { return rate + steady(known); }

// `k` is steady(known), which looks at the whole shape.
Forecast forecast_with(const ServiceForecast& known, double k, std::int64_t time_ms) {
  const Shaped shape = shaped(known, time_ms);
  double rate = shape.rate;
  if (known.last_ms > 0) {
    const bool alike = shape.learned == shaped(known, known.last_ms).learned;
    rate = alike ? (shape.rate + k) * (known.level + k) / (known.expected + k) - k : known.level;
  }
  rate = std::max(rate, 0.0);
  const double scale = rate + k;
  return {rate, std::max(rate - known.below * scale, 0.0), rate + known.above * scale};
}

// One quarter of an hour is over.
void close_slot(ServiceForecast& known, const ForecastSettings& settings) {
  if (known.slot_count >= kFewestRates) {
    const double mean = known.slot_sum / known.slot_count;
    const std::size_t slot = slot_of(known.last_ms);
    const double weight = known.days[slot] == 0 ? 1 : settings.day_weight;
    known.shape[slot] += weight * (mean - known.shape[slot]);
    known.days[slot] = std::min(known.days[slot] + 1, 1000);
  }
  known.slot_sum = 0;
  known.slot_count = 0;
}

void score(ServiceForecast& known, double rate, const Forecast& forecast, double coverage) {
  const double error = (rate - forecast.rate) / scale_of(known, forecast.rate);
  const auto follow = [&](double end, bool missed) {
    const double by = missed ? coverage : coverage - 1;
    return std::clamp(end + kIntervalStep * by, kNarrowestInterval, kWidestInterval);
  };
  known.above = follow(known.above, error > known.above);
  known.below = follow(known.below, -error > known.below);
}

}  // namespace

int weekday(std::int64_t time_ms) {
  return static_cast<int>((time_ms / kDayMs + kFirstWeekday) % 7);
}

int minute_of_day(std::int64_t time_ms) { return static_cast<int>(time_ms % kDayMs / kMinuteMs); }

ServiceForecast begin_forecast(const plan::Service& service) {
  ServiceForecast known;
  known.service = service.name;
  known.days.assign(std::size_t{kShapes * kDaySlots}, 0);
  for (int slot = 0; slot < kShapes * kDaySlots; ++slot) {
    const int minute = slot % kDaySlots * kSlotMinutes;
    const Rps rate =
        service.traffic.rates.empty() ? service.rate : plan::rate_at(service.traffic.rates, minute);
    known.shape.push_back(rate.value);
  }
  return known;
}

ServiceForecast learned(ServiceForecast known, const MeasuredRate& measured,
                        const ForecastSettings& settings) {
  const double rate = std::clamp(measured.rate_rps, 0.0, kHighestRate);
  const std::int64_t now = std::max(measured.now_ms, known.last_ms);
  if (measured.forecast) score(known, rate, *measured.forecast, settings.coverage);
  const bool was_learned = known.last_ms > 0 && shaped(known, known.last_ms).learned;
  if (known.last_ms > 0 && slot_of(known.last_ms) != slot_of(now)) close_slot(known, settings);
  const Shaped shape = shaped(known, now);
  if (known.last_ms == 0)
    known.level = known.expected = shape.rate;
  else if (shape.learned != was_learned)
    known.expected = shape.rate;
  // What was not measured for some minutes, while the agent began anew, says nothing; after more,
  // what was known fades, and the next minutes make up for it together: none of them is all.
  const double passed = known.last_ms == 0 ? static_cast<double>(kMinuteMs)
                                           : static_cast<double>(now - known.last_ms);
  const double over = std::min(passed, static_cast<double>(measured.over_ms));
  const auto left_after = [&](double ms) { return std::exp2(-ms / 1000 / settings.half_life_s); };
  const double old = known.worth * left_after(std::max(over, passed - kShortGapMs));
  const double fresh = 1 - left_after(over);
  known.worth = std::min(old + fresh, 1.0);
  const double weight = old + fresh > 0 ? fresh / (old + fresh) : 0;
  known.level += weight * (rate - known.level);
  known.expected += weight * (shape.rate - known.expected);
  known.slot_sum += rate;
  ++known.slot_count;
  known.last_ms = now;
  return known;
}

Forecast forecast_at(const ServiceForecast& known, std::int64_t time_ms) {
  return forecast_with(known, steady(known), time_ms);
}

Forecast highest_until(const ServiceForecast& known, std::int64_t now_ms, std::int64_t until_ms) {
  const double k = steady(known);
  Forecast highest = forecast_with(known, k, until_ms);
  const std::int64_t step = 5 * kMinuteMs;
  for (std::int64_t time = now_ms; time < until_ms; time += step) {
    const Forecast one = forecast_with(known, k, time);
    if (one.high > highest.high) highest = one;
  }
  return highest;
}

}  // namespace partita::control
