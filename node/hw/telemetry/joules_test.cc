#include "hw/telemetry/joules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/rng.h"

namespace partita::telemetry {
namespace {

// A board that draws 100 W, and 300 W in the first 0.7 s of every 2 s.
double truth_w(double t) { return std::fmod(t, 2.0) < 0.7 ? 300 : 100; }
double truth_j(double t) {
  const double cycles = std::floor(t / 2), rest = t - 2 * cycles;
  return cycles * (0.7 * 300 + 1.3 * 100) + std::min(rest, 0.7) * 300 +
         std::max(0.0, rest - 0.7) * 100;
}

// As NVML tells it: the mean of the last second, and a counter that moves every `step` seconds.
Log log_of(double step, bool instant, bool counter) {
  Rng rng(5);
  Log log;
  for (double t = 10; t < 70; t += 0.03 + 0.05 * rng.uniform()) {
    GpuSample gpu{.index = 3};
    if (instant) gpu.power = Watts{truth_w(std::floor(t / 0.02) * 0.02)};
    gpu.power_average = Watts{truth_j(t) - truth_j(t - 1)};
    if (counter) gpu.energy = Joules{1e6 + truth_j(std::floor(t / step) * step)};
    log.push_back({.at = Seconds{t}, .gpus = {gpu}});
  }
  return log;
}

std::vector<Interval> intervals_of(const Log& log, int gpu) {
  for (const Board& board : measure(log))
    if (board.index == gpu) return board.intervals;
  return {};
}

double sum(const std::vector<Interval>& steps) {
  double all = 0;
  for (const Interval& step : steps) all += step.joules;
  return all;
}

// Joules in the wrong interval, of all.
double misplaced(const std::vector<Interval>& steps) {
  double wrong = 0, all = 0;
  for (const Interval& step : steps) {
    const double right = truth_j((step.from + step.length).value) - truth_j(step.from.value);
    wrong += std::abs(step.joules - right);
    all += right;
  }
  return wrong / all;
}

TEST(Joules, SumIsWhatTheCounterGrewBy) {
  for (const double step : {0.02, 0.1, 1.0}) {
    const Log log = log_of(step, true, true);
    const double grown = (*log.back().gpus[0].energy - *log.front().gpus[0].energy).value;
    EXPECT_NEAR(sum(intervals_of(log, 3)), grown, 1e-9 * grown);
  }
}

TEST(Joules, PlateausAreSpreadAsThePowerWas) {
  const double reconciled = misplaced(intervals_of(log_of(0.1, true, true), 3));
  const double averaged = misplaced(intervals_of(log_of(0.1, false, false), 3));
  EXPECT_LT(reconciled, 0.1);
  EXPECT_GT(averaged, 2 * reconciled) << "means of a second alone put it elsewhere";
  // With means alone the counter still says when, in its steps.
  EXPECT_LT(misplaced(intervals_of(log_of(0.1, false, true), 3)), averaged);
}

TEST(Joules, WithoutCounterThePowersCount) {
  const auto steps = intervals_of(log_of(0.1, true, false), 3);
  EXPECT_EQ(steps.front().source, MeterSource::power);
  const double right =
      truth_j((steps.back().from + steps.back().length).value) - truth_j(steps.front().from.value);
  EXPECT_NEAR(sum(steps), right, 0.01 * right);
}

Log counters(const std::vector<std::pair<double, double>>& at) {
  Log log;
  for (const auto& [time, energy] : at)
    log.push_back({.at = Seconds{time}, .gpus = {{.index = 0, .energy = Joules{energy}}}});
  return log;
}

TEST(Joules, CounterAloneIsSpreadByTime) {
  const auto steps = intervals_of(counters({{0, 10}, {1, 10}, {3, 40}}), 0);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_DOUBLE_EQ(steps[0].joules, 10);
  EXPECT_DOUBLE_EQ(steps[1].joules, 20);
  EXPECT_DOUBLE_EQ(steps[1].length.value, 2);
}

TEST(Joules, CounterThatStartsAnewCountsFromZero) {
  const auto steps = intervals_of(counters({{0, 1000}, {1, 1100}, {2, 30}, {3, 130}}), 0);
  EXPECT_DOUBLE_EQ(sum(steps), 100 + 30 + 100);
}

TEST(Joules, NothingIsKnownOfAnotherGpuOrOfOneSample) {
  EXPECT_TRUE(intervals_of(counters({{0, 1000}, {1, 1100}}), 1).empty());
  EXPECT_TRUE(intervals_of(counters({{0, 1000}}), 0).empty());
  Log silent{{.at = Seconds{1}, .gpus = {{.index = 0}}},
             {.at = Seconds{2}, .gpus = {{.index = 0}}}};
  const auto steps = intervals_of(silent, 0);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].source, MeterSource::nothing);
}

}  // namespace
}  // namespace partita::telemetry
