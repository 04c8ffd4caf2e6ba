#include "model/queueing.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "model/testing/reference_queue.h"

namespace partita::model {
namespace {

BatchQueue queue_of(const std::vector<profile::BatchCurve::Step>& steps, int processes) {
  return {.curve = {steps}, .processes = processes};
}

// Steps at the powers of two: base + slope * batch^exponent.
BatchQueue doubling(int max_batch, int processes, double base, double slope, double exponent = 1) {
  BatchQueue queue{.curve = {}, .processes = processes};
  for (int b = 1; b <= max_batch; b *= 2)
    queue.curve.steps.push_back({b, Millis{base + slope * std::pow(b, exponent)}});
  return queue;
}

TEST(LatencyPercentile, OfAnIdleSystemIsOneExecution) {
  for (const int processes : {1, 3}) {
    const BatchQueue queue = doubling(32, processes, 5, 0.9);
    EXPECT_EQ(latency_percentile(queue, Rps{0}, 99).value, 5.9);
    EXPECT_EQ(latency_percentile(queue, Rps{0.01}, 99).value, 5.9);
  }
}

TEST(LatencyPercentile, IsInfiniteFromSaturationOn) {
  const BatchQueue queue = queue_of({{1, Millis{10}}, {4, Millis{20}}}, 2);
  EXPECT_DOUBLE_EQ(saturation(queue).value, 400);
  EXPECT_EQ(latency_percentile(queue, Rps{400}, 50).value, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isfinite(latency_percentile(queue, Rps{399.9}, 50).value));
}

// Crommelin: P(wait <= t) of M/D/1 with service time 1, as an alternating series.
double crommelin(double load, double t) {
  long double sum = 0;
  for (int k = 0; k <= static_cast<int>(t); ++k) {
    const long double x = load * (k - static_cast<long double>(t));
    sum += std::pow(x, k) * std::exp(-x - std::lgamma(k + 1.0L));
  }
  return static_cast<double>((1 - load) * sum);
}

TEST(LatencyPercentile, OfSingleRequestsIsCrommelins) {
  for (const double load : {0.2, 0.5, 0.8, 0.9}) {
    for (const double percentile : {75.0, 90.0, 95.0, 99.0}) {
      const double latency =
          latency_percentile(queue_of({{1, Millis{1}}}, 1), Rps{1000 * load}, percentile).value;
      // Rounded up by at most a fiftieth of a per cent.
      EXPECT_GE(crommelin(load, latency - 1), percentile / 100 - 1e-6) << load << " " << percentile;
      if (latency == 1) continue;  // enough requests find the queue idle
      EXPECT_LE(crommelin(load, latency * 0.9995 - 1), percentile / 100 + 1e-6)
          << load << " " << percentile;
    }
  }
}

// P processes that run single requests are one server P times as fast, plus the rest of the
// execution.
TEST(LatencyPercentile, OfSingleRequestsOnSeveralProcesses) {
  const double one = latency_percentile(queue_of({{1, Millis{4}}}, 1), Rps{200}, 99).value;
  const double three = latency_percentile(queue_of({{1, Millis{12}}}, 3), Rps{200}, 99).value;
  EXPECT_NEAR(three - 12, one - 4, 0.005 * one);
}

// Far out the wait falls by e^-x per request served, where utilisation * (e^x - 1) = x, whatever
// the batch size.
TEST(LatencyPercentile, FallsAtTheCramerLundbergRate) {
  const double utilisation = 0.98;
  double x = 1;
  for (int i = 0; i < 5000; ++i) x = std::log1p(x / utilisation);
  for (const int batch : {1, 7, 64}) {
    const BatchQueue queue = queue_of({{batch, Millis{10}}}, 1);
    const Rps load = saturation(queue) * utilisation;
    const Millis time =
        latency_percentile(queue, load, 99.99) - latency_percentile(queue, load, 99);
    EXPECT_NEAR(time.value, 1000 * std::log(100) / x / saturation(queue).value, 0.002 * time.value)
        << batch;
  }
}

struct Case {
  std::string name;
  BatchQueue queue;
  double utilisation;
};

std::vector<Case> representative_cases() {
  return {
      {"light", doubling(8, 1, 5, 0.9), 0.2},
      {"affine 4", doubling(4, 1, 5, 0.9), 0.6},
      {"affine 32", doubling(32, 1, 5, 0.9), 0.8},
      {"affine 128", doubling(128, 1, 5, 0.9), 0.7},
      {"two processes", doubling(8, 2, 5, 0.9), 0.7},
      {"three processes", doubling(16, 3, 5, 0.9), 0.6},
      {"three, full", doubling(128, 3, 5, 0.9), 0.85},
      {"sublinear", doubling(32, 2, 0, 4, 0.6), 0.5},
      {"flat", doubling(32, 3, 10, 0.05), 0.8},
      {"one size", queue_of({{32, Millis{30}}}, 1), 0.9},
      {"jump", queue_of({{1, Millis{2}}, {2, Millis{3}}, {4, Millis{20}}, {8, Millis{24}}}, 1),
       0.8},
      {"every size",
       [] {
         BatchQueue queue{.curve = {}, .processes = 3};
         for (int b = 1; b <= 16; ++b) queue.curve.steps.push_back({b, Millis{5 + 0.9 * b}});
         return queue;
       }(),
       0.7},
  };
}

TEST(LatencyPercentile, AgreesWithTheEventLoop) {
  for (const Case& c : representative_cases()) {
    const Rps load = saturation(c.queue) * c.utilisation;
    const std::vector<double> latencies = reference_latencies(c.queue, load, 300'000, 1);
    for (const double percentile : {95.0, 99.0}) {
      const double simulated = percentile_of(latencies, percentile);
      const double predicted = latency_percentile(c.queue, load, percentile).value;
      EXPECT_LT(predicted, 1.10 * simulated) << c.name << " p" << percentile;
      EXPECT_GT(predicted, 0.95 * simulated) << c.name << " p" << percentile;
    }
  }
}

TEST(Capacity, IsZeroWhenAnIdleSystemMisses) {
  EXPECT_EQ(capacity(doubling(8, 2, 5, 1), Millis{5.9}, 99).value, 0);
  EXPECT_GT(capacity(doubling(8, 2, 5, 1), Millis{6.1}, 99).value, 0);
}

TEST(Capacity, ApproachesSaturationWhenTheSloIsLoose) {
  const BatchQueue queue = doubling(8, 2, 5, 1);
  EXPECT_GT(capacity(queue, Millis{1e5}, 99) / saturation(queue), 0.999);
  EXPECT_LT(capacity(queue, Millis{1e9}, 99) / saturation(queue), 1);
}

TEST(Capacity, OfSingleRequestsIsCrommelins) {
  const double load = capacity(queue_of({{1, Millis{1}}}, 1), Millis{6}, 99).value / 1000;
  EXPECT_GE(crommelin(load, 5), 0.99);
  EXPECT_LT(crommelin(load * 1.002, 5), 0.99);
}

// Of any curve: the percentile holds at the capacity and fails just above it.
RC_GTEST_PROP(Capacity, IsTheThresholdOfThePercentile, ()) {
  BatchQueue queue{.curve = {}, .processes = *rc::gen::inRange(1, 4)};
  int batch = 0;
  double latency = 1;
  const int steps = *rc::gen::inRange(1, 7);
  for (int i = 0; i < steps; ++i) {
    batch += *rc::gen::inRange(1, 20);
    latency += *rc::gen::inRange(1, 500) * 0.01;
    queue.curve.steps.push_back({batch, Millis{latency}});
  }
  const double percentile = *rc::gen::inRange(500, 999) * 0.1;
  const Millis slo{latency * *rc::gen::inRange(50, 600) * 0.01};
  const Rps load = capacity(queue, slo, percentile);
  if (load.value == 0) {
    RC_ASSERT(slo.value < queue.curve.steps[0].latency.value * 1.001);
    return;
  }
  RC_ASSERT(latency_percentile(queue, load, percentile) <= slo);
  RC_ASSERT(load < saturation(queue));
  if (queue.processes > 1) return;  // sampled blocking is only nearly continuous in the load
  RC_ASSERT(latency_percentile(queue, load * 1.002, percentile) > slo * 0.999);
}

TEST(PlanningCapacity, KeepsThePercentileOverAMinute) {
  for (const double slo : {35.0, 45.0}) {
    const BatchQueue queue = doubling(16, 2, 5, 0.9);
    const Rps planned = planning_capacity(queue, Millis{slo}, 99);
    EXPECT_LE(planned, capacity(queue, Millis{slo}, 99.5));
    EXPECT_GT(planned / capacity(queue, Millis{slo}, 99), 0.9);
    int kept = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const int minute = static_cast<int>(60 * planned.value);
      kept += percentile_of(reference_latencies(queue, planned, minute, seed), 99) <= slo;
    }
    EXPECT_GE(kept, 18) << slo;
  }
}

}  // namespace
}  // namespace partita::model
