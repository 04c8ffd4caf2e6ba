#include "control/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>

#include "base/rng.h"
#include "control/memory.h"

namespace partita::control {
namespace {

constexpr std::int64_t kFirstMonday = 1'767'571'200'000;  // 5 January 2026
constexpr double kPi = 3.14159265358979;

plan::Service service_of(double rate) {
  plan::Service service;
  service.name = "s";
  service.model = "m";
  service.rate = Rps{rate};
  return service;
}

double diurnal(std::int64_t time_ms) {
  const double day = static_cast<double>(minute_of_day(time_ms)) / 1440;
  return 600 - 400 * std::cos(2 * kPi * day);
}

struct Played {
  ServiceForecast known;
  long scored = 0,
       above = 0;  // forecasts whose time came; rates above the upper end as it was then
  double error = 0, high = 0, truth = 0;  // sums over the last day
};

// Minute by minute; errors are of forecasts a horizon ahead.
Played play(int days, const std::function<double(std::int64_t)>& rate,
            const ForecastSettings& settings, double wanted) {
  Played played;
  played.known = begin_forecast(service_of(wanted));
  std::deque<std::pair<std::int64_t, Forecast>> made;
  const auto ahead = static_cast<std::int64_t>(settings.horizon_s * 1000);
  const std::int64_t end = kFirstMonday + days * std::int64_t{1440} * kMinuteMs;
  for (std::int64_t now = kFirstMonday + kMinuteMs; now <= end; now += kMinuteMs) {
    MeasuredRate measured{now, rate(now), {}};
    while (!made.empty() && made.front().first <= now) {
      measured.forecast = made.front().second;
      made.pop_front();
    }
    if (measured.forecast) {
      ++played.scored;
      const double scale = measured.forecast->rate +
                           std::max(0.05 * *std::ranges::max_element(played.known.shape), 1e-3);
      played.above +=
          measured.rate_rps > measured.forecast->rate + played.known.above * scale ? 1 : 0;
      if (now > end - 1440 * kMinuteMs) {
        played.error += std::abs(measured.rate_rps - measured.forecast->rate);
        played.high += measured.forecast->high;
        played.truth += measured.rate_rps;
      }
    }
    played.known = learned(std::move(played.known), measured, settings);
    made.emplace_back(now + ahead, forecast_at(played.known, now + ahead));
  }
  return played;
}

TEST(Forecast, WithoutHistoryItIsTheServicesFile) {
  plan::Service service = service_of(120);
  EXPECT_DOUBLE_EQ(forecast_at(begin_forecast(service), kFirstMonday).rate, 120);
  service.traffic.rates = {{8 * 60, Rps{500}}, {20 * 60, Rps{50}}};
  const ServiceForecast known = begin_forecast(service);
  EXPECT_DOUBLE_EQ(forecast_at(known, kFirstMonday + 12 * 60 * kMinuteMs).rate, 500);
  EXPECT_DOUBLE_EQ(forecast_at(known, kFirstMonday + 23 * 60 * kMinuteMs).rate, 50);
  EXPECT_DOUBLE_EQ(forecast_at(known, kFirstMonday + 3 * 60 * kMinuteMs).rate, 50);
}

TEST(Forecast, FollowsALevelByItsHalfLife) {
  ForecastSettings settings;
  settings.half_life_s = 600;
  ServiceForecast known = begin_forecast(service_of(100));
  std::int64_t now = kFirstMonday + 5 * 60 * kMinuteMs;
  known = learned(std::move(known), {now, 100, {}}, settings);
  for (int minute = 0; minute < 10; ++minute)
    known = learned(std::move(known), {now += kMinuteMs, 300, {}}, settings);
  // Half of the way from 100 to 300 after one half-life.
  EXPECT_NEAR(known.level, 200, 1e-6);
  EXPECT_NEAR(forecast_at(known, now + 10 * kMinuteMs).rate, 200, 1e-6);
}

// An agent that was not there for two minutes knows no more for it: a minute counts as a minute.
TEST(Forecast, AMinuteAfterAShortGapCountsAsOne) {
  const ForecastSettings settings;
  std::int64_t now = 10 * kMinuteMs;
  ServiceForecast known = begin_forecast({.name = "s", .rate = Rps(100)});
  known = learned(std::move(known), {now, 100, {}}, settings);
  const double after_one = learned(known, {now + kMinuteMs, 300, {}}, settings).level;
  EXPECT_EQ(learned(known, {now + 3 * kMinuteMs, 300, {}}, settings).level, after_one);
  EXPECT_GT(learned(known, {now + 3 * kMinuteMs, 300, {}, 3 * kMinuteMs}, settings).level,
            after_one);
  EXPECT_GT(learned(known, {now + 20 * kMinuteMs, 300, {}}, settings).level, after_one);
}

// What was known fades in a long gap, but a single minute after it is not all that is known.
TEST(Forecast, NoMinuteAfterALongGapIsAll) {
  const ForecastSettings settings;
  ServiceForecast known = begin_forecast({.name = "s", .rate = Rps(100)});
  const std::int64_t first = 60 * kMinuteMs;
  known = learned(std::move(known), {first, 100, {}}, settings);
  // Eleven minutes, as of an agent and a gateway that failed one after the other.
  const ServiceForecast soon = learned(known, {first + 11 * kMinuteMs, 91, {}}, settings);
  EXPECT_GT(soon.level, 98);
  // An hour: the mean of the minutes since then, until they are worth what a level is.
  double sum = 0;
  std::int64_t now = first + 60 * kMinuteMs;
  for (int minute = 1; minute <= 4; ++minute, now += kMinuteMs) {
    const double rate = minute % 2 == 1 ? 180 : 220;
    sum += rate;
    known = learned(std::move(known), {now, rate, {}}, settings);
    EXPECT_NEAR(known.level, sum / minute, 4) << minute;
    EXPECT_LT(known.worth, 0.5);
  }
  AgentMemory memory;
  memory.forecasts = {known};
  EXPECT_EQ(*parse_memory("memory", memory_json(memory)), memory);
  for (int minute = 0; minute < 60; ++minute, now += kMinuteMs)
    known = learned(std::move(known), {now, 200, {}}, settings);
  EXPECT_NEAR(known.worth, 1, 1e-3);
}

TEST(Forecast, LearnsTheShapeOfADay) {
  const Played first = play(1, diurnal, {}, 1000);
  const Played third = play(3, diurnal, {}, 1000);
  EXPECT_LT(third.error / third.truth, 0.02);
  EXPECT_LT(third.error, 0.3 * first.error);
  EXPECT_LT(third.high / third.truth, 1.25);
  // Twice the traffic of the learned days: the level lifts the whole shape.
  ServiceForecast known = third.known;
  std::int64_t now = known.last_ms;
  for (int minute = 0; minute < 120; ++minute) {
    now += kMinuteMs;
    known = learned(std::move(known), {now, 2 * diurnal(now), {}}, {});
  }
  const std::int64_t later = now + 30 * kMinuteMs;
  EXPECT_NEAR(forecast_at(known, later).rate / (2 * diurnal(later)), 1, 0.1);
}

// |misses / n - (1 - coverage)| <= (range / step + 1) / n, for any rates: quiet, noisy, jumping.
TEST(Forecast, TheIntervalCoversItsShare) {
  for (const double coverage : {0.9, 0.98}) {
    ForecastSettings settings;
    settings.coverage = coverage;
    settings.horizon_s = 600;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      Rng rng(seed);
      double jump = 1;
      const Played played = play(
          14,
          [&](std::int64_t time) {
            if (rng.uniform() < 0.002) jump = 0.7 + 0.6 * rng.uniform();
            return diurnal(time) * jump * (0.85 + 0.3 * rng.uniform());
          },
          settings, 1000);
      const double missed = static_cast<double>(played.above) / static_cast<double>(played.scored);
      const double bound =
          (kWidestInterval / kIntervalStep + 1) / static_cast<double>(played.scored);
      EXPECT_NEAR(missed, 1 - coverage, bound) << "seed " << seed << " coverage " << coverage;
    }
  }
}

// Where the first day ends, what was learned meets what the services file says.
TEST(Forecast, TheSecondDayBeginsWithoutAJump) {
  ServiceForecast known = begin_forecast(service_of(5000));
  for (int minute = 1; minute <= 1500; ++minute) {
    const std::int64_t now = kFirstMonday + minute * kMinuteMs;
    known = learned(std::move(known), {now, diurnal(now), {}}, {});
    if (minute < 60) continue;
    const std::int64_t later = now + 30 * kMinuteMs;
    EXPECT_NEAR(forecast_at(known, later).rate / diurnal(later), 1, 0.25) << minute;
  }
}

TEST(Forecast, TellsWeekendsFromWorkingDays) {
  const auto rate = [](std::int64_t time) { return weekday(time) >= 5 ? 100.0 : diurnal(time); };
  const Played played = play(14, rate, {}, 1000);
  // Sunday night is over: Monday's morning is as Mondays are.
  const std::int64_t morning = kFirstMonday + (14 * 1440 + 20) * kMinuteMs;
  EXPECT_NEAR(forecast_at(played.known, morning).rate, diurnal(morning), 0.6 * diurnal(morning));
  const Played sunday = play(13, rate, {}, 1000);
  EXPECT_NEAR(forecast_at(sunday.known, kFirstMonday + (12 * 1440 + 720) * kMinuteMs).rate, 100,
              15);
}

TEST(Forecast, KnowsDays) {
  EXPECT_EQ(weekday(kFirstMonday), 0);
  EXPECT_EQ(weekday(kFirstMonday + 6 * std::int64_t{1440} * kMinuteMs), 6);
  EXPECT_EQ(minute_of_day(kFirstMonday + 90 * kMinuteMs), 90);
}

}  // namespace
}  // namespace partita::control
