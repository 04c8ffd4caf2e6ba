#include "sim/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace partita::sim {
namespace {

TEST(Arrivals, PoissonGapsAreExponential) {
  // Kolmogorov-Smirnov: the distance to 1 - e^(-rate t) stays under the 0.1 % critical value.
  constexpr int kCount = 100'000;
  constexpr double kRate = 250;
  ArrivalSource source = ArrivalSource::poisson(Rps{kRate}, Rng(3));
  std::vector<double> gaps;
  Nanos previous = 0;
  for (int i = 0; i < kCount; ++i) {
    const Nanos next = source.next();
    gaps.push_back(static_cast<double>(next - previous) / kNanosPerSecond);
    previous = next;
  }
  std::sort(gaps.begin(), gaps.end());
  double distance = 0;
  for (int i = 0; i < kCount; ++i) {
    const double expected = -std::expm1(-kRate * gaps[static_cast<std::size_t>(i)]);
    distance = std::max({distance, std::abs(expected - i / double{kCount}),
                         std::abs(expected - (i + 1) / double{kCount})});
  }
  EXPECT_LT(distance, 1.95 / std::sqrt(kCount));
}

TEST(Arrivals, UniformIsEvenFromAPhaseOfItsOwn) {
  ArrivalSource a = ArrivalSource::uniform(Rps{1000}, component_rng(1, "a"));
  ArrivalSource b = ArrivalSource::uniform(Rps{1000}, component_rng(1, "b"));
  const Nanos first = a.next(), other = b.next();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 1'000'000);
  EXPECT_NE(first, other);
  for (int i = 1; i < 1000; ++i) {
    EXPECT_NEAR(static_cast<double>(a.next() - first), i * 1e6, 1);
  }
}

TEST(Arrivals, RecordedTimesComeBackThenNeverAgain) {
  const std::vector<double> times = {0, 0.25, 0.25, 2};
  ArrivalSource source = ArrivalSource::recorded(times);
  EXPECT_EQ(source.next(), 0);
  EXPECT_EQ(source.next(), 250'000'000);
  EXPECT_EQ(source.next(), 250'000'000);
  EXPECT_EQ(source.next(), 2'000'000'000);
  EXPECT_EQ(source.next(), kForever);
  EXPECT_EQ(ArrivalSource().next(), kForever);
}

TEST(Arrivals, ASlowServiceDoesNotOverflowTheClock) {
  ArrivalSource source = ArrivalSource::poisson(Rps{1e-300}, Rng(1));
  EXPECT_EQ(source.next(), kForever);
  EXPECT_EQ(source.next(), kForever);
}

TEST(Trace, GroupsByServiceInOrder) {
  const auto traces = parse_trace("t.csv", "time_s,service\n0,b\n0.5,a\n0.5,b\n3e0,a\n");
  ASSERT_TRUE(traces) << to_string(traces.error());
  ASSERT_EQ(traces->size(), 2u);
  EXPECT_EQ((*traces)[0].service, "a");
  EXPECT_EQ((*traces)[0].times_s, (std::vector<double>{0.5, 3}));
  EXPECT_EQ((*traces)[1].service, "b");
  EXPECT_EQ((*traces)[1].times_s, (std::vector<double>{0, 0.5}));
}

TEST(Trace, RefusalsNameTheLine) {
  const auto context = [](const char* text) {
    const auto traces = parse_trace("t.csv", text);
    return traces ? std::string("accepted") : traces.error().context;
  };
  EXPECT_EQ(context(""), "t.csv:1");
  EXPECT_EQ(context("time_s,name\n1,a\n"), "t.csv:1");
  EXPECT_EQ(context("time_s,service\n1,a\n2,a\n1.5,a\n"), "t.csv:4");
  EXPECT_EQ(context("time_s,service\n1,a\n\n0.5,b\n"), "t.csv:4");
  EXPECT_EQ(context("time_s,service\n-1,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\nnan,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1e400,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1,\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1,a\n1s,a\n"), "t.csv:3");
}

}  // namespace
}  // namespace partita::sim
