#include "plan/telling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "plan/arrivals.h"

namespace partita::plan {
namespace {

constexpr long kMost = 20'000;
constexpr Millis kSlo{20};

TraceArrivals replaying(TrafficTrace trace) {
  return {"x", "", std::make_shared<const TrafficTrace>(std::move(trace))};
}

struct Played {
  double seconds = 0, requests = 0, weighed = 0, busiest = 0;
};
Played sums_of(const std::vector<Stretch>& stretches) {
  Played sums;
  for (const Stretch& one : stretches) {
    const double requests = one.length.value * one.rate.value;
    sums.seconds += one.length.value;
    sums.requests += requests;
    sums.weighed += requests * one.weight;
    sums.busiest = std::max(sums.busiest, one.rate.value);
  }
  return sums;
}

TEST(Telling, WhatCanBePlayedIsPlayedAsItIs) {
  const OnOff on_off{.peak = 5, .seconds = 1, .every = 20};
  EXPECT_TRUE(telling_stretches(PoissonArrivals{}, Rps{1e9}, kSlo, kMost).empty());
  EXPECT_TRUE(telling_stretches(GammaArrivals{50}, Rps{1e9}, kSlo, kMost).empty());
  EXPECT_TRUE(
      telling_stretches(BurstArrivals{on_off}, Rps{80}, kSlo, kMost).empty());  // 12 x 1,600
  EXPECT_FALSE(telling_stretches(BurstArrivals{on_off}, Rps{90}, kSlo, kMost).empty());
  EXPECT_EQ(telling_requests(BurstArrivals{on_off}, Rps{90}, kMost), kMost);
}

// Counts are multiplied, so that a recording has as many requests as the rate says.
TEST(Telling, ARecordingOfCountsHasTheRequestsOfItsRate) {
  const TraceArrivals trace = replaying({{}, {60, 120}});
  EXPECT_EQ(telling_requests(trace, Rps{100}), 12'000);
  EXPECT_EQ(telling_requests(replaying({{0, 1, 2, 3}, {}}), Rps{100}), 4);
}

TEST(Telling, WeightsAddUpToWholePeriods) {
  std::vector<double> day(1440, 100);
  for (std::size_t i = 1200; i < 1230; ++i) day[i] = 1500;
  std::vector<double> times;
  Rng rng(3);
  for (double now = 0; times.size() < 300'000;)
    times.push_back(now += rng.exponential() / (times.size() % 100'000 < 60'000 ? 5 : 1));
  for (const auto& [law, rate, requests] : std::vector<std::tuple<Arrivals, double, double>>{
           {BurstArrivals{{10, 40, 2000}}, 800, 1.6e6},
           {BurstArrivals{{2, 1, 86400}}, 800, 6.912e7},
           {MmppArrivals{{10, 20, 3600}}, 900, 6 * 3600 * 900.0},
           {replaying({{}, day}), 800, 800 * 86400.0},
           {replaying({times, {}}), 50, 3e5}}) {
    const std::vector<Stretch> stretches = telling_stretches(law, Rps{rate}, kSlo, kMost);
    const Played sums = sums_of(stretches);
    EXPECT_LE(sums.requests, 1.1 * kMost) << to_string(law);
    EXPECT_GE(sums.requests, 0.2 * kMost) << to_string(law);
    EXPECT_NEAR(sums.weighed, requests, 1e-3 * requests) << to_string(law);
    // The source plays them: as many as it says, and then nothing.
    ArrivalSource source = ArrivalSource::of(stretches, law, Rps{rate}, Rng(1));
    double count = 0;
    Nanos last = 0;
    for (Nanos at = source.next(); at != kForever; at = source.next(), ++count) {
      EXPECT_GE(at, last);
      last = at;
    }
    EXPECT_NEAR(count, sums.requests, 5 * std::sqrt(sums.requests)) << to_string(law);
    EXPECT_LE(static_cast<double>(last), sums.seconds * 1e9 + 1) << to_string(law);
  }
}

// A burst that is too rare to come in what may be played is in it all the same, at its share.
TEST(Telling, RareBurstsHaveTheirShare) {
  for (const OnOff on_off : {OnOff{10, 1, 20'000}, OnOff{10, 400, 20'000}, OnOff{5, 20, 3600}}) {
    for (const Arrivals& law : {Arrivals{BurstArrivals{on_off}}, Arrivals{MmppArrivals{on_off}}}) {
      const std::vector<Stretch> stretches = telling_stretches(law, Rps{800}, kSlo, kMost);
      double peak = 0, all = 0;
      for (const Stretch& one : stretches) {
        const double requests = one.weight * one.length.value * one.rate.value;
        all += requests;
        if (one.rate.value > 800) peak += requests;
      }
      const double share = on_off.peak * on_off.seconds / on_off.every;
      EXPECT_GE(peak / all, 0.99 * share) << to_string(law);
      EXPECT_LE(peak / all, 1.6 * share) << to_string(law);
    }
  }
}

// The busiest minutes are played as long as they are, and stand for those that are as busy.
TEST(Telling, TheBusiestOfARecordingIsPlayedAsItIs) {
  std::vector<double> day(1440, 100);
  for (std::size_t i = 1200; i < 1230; ++i) day[i] = 1500;
  const Rps rate{20};  // 232 a minute's 100 to 1,500 make 15.5 and 232/s
  const std::vector<Stretch> stretches = telling_stretches(replaying({{}, day}), rate, kSlo, kMost);
  double longest = 0, weighed = 0, all = 0;
  for (const Stretch& one : stretches) {
    const double requests = one.length.value * one.rate.value * one.weight;
    all += requests;
    if (one.rate.value < 100) continue;
    weighed += requests;
    if (one.weight > 0) longest = std::max(longest, one.length.value);
  }
  EXPECT_NEAR(weighed / all, 45'000 / 186'000.0, 0.01);
  EXPECT_GE(longest, 5);
}

}  // namespace
}  // namespace partita::plan
