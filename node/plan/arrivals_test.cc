#include "plan/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace partita::plan {
namespace {

constexpr double kSecond = 1e9;

struct Moments {
  double mean = 0, variance = 0;
  int samples = 0;
  double mean_error() const { return std::sqrt(variance / samples); }
  double dispersion() const { return variance / mean; }
};

Moments moments_of(const std::vector<double>& values) {
  Moments m{.samples = static_cast<int>(values.size())};
  for (const double v : values) m.mean += v / m.samples;
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / (m.samples - 1);
  return m;
}

std::vector<double> gaps_of(ArrivalSource source, int count) {
  std::vector<double> gaps;
  double before = static_cast<double>(source.next());
  for (int i = 0; i < count; ++i) {
    const auto next = static_cast<double>(source.next());
    gaps.push_back((next - before) / kSecond);
    before = next;
  }
  return gaps;
}

// How many requests come before `until_s`, of so many sources that differ in their seed alone.
Moments counts_of(const Arrivals& arrivals, Rps rate, double until_s, int sources) {
  std::vector<double> counts;
  for (int seed = 0; seed < sources; ++seed) {
    ArrivalSource source =
        ArrivalSource::of(arrivals, rate, Rng(static_cast<std::uint64_t>(seed)).split(7));
    double count = 0;
    while (static_cast<double>(source.next()) < until_s * kSecond) ++count;
    counts.push_back(count);
  }
  return moments_of(counts);
}

// Kolmogorov-Smirnov distance, in units of its 0.1 % critical value.
double distance(std::vector<double> samples, const std::function<double(double)>& cdf) {
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  double worst = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double below = static_cast<double>(i) / n, expected = cdf(samples[i]);
    worst = std::max({worst, std::abs(expected - below), std::abs(expected - below - 1 / n)});
  }
  return worst * std::sqrt(n) / 1.95;
}

TraceArrivals playing(TrafficTrace trace) {
  return {"file", "", std::make_shared<const TrafficTrace>(std::move(trace))};
}

TEST(ArrivalSource, PoissonGapsAreExponential) {
  constexpr double kRate = 250;
  const auto gaps = gaps_of(ArrivalSource::poisson(Rps{kRate}, Rng(3)), 100'000);
  EXPECT_LT(distance(gaps, [](double t) { return -std::expm1(-kRate * t); }), 1);
  const auto law = gaps_of(ArrivalSource::of(PoissonArrivals{}, Rps{kRate}, Rng(3)), 100'000);
  EXPECT_EQ(gaps, law);
}

TEST(ArrivalSource, UniformIsEvenFromAPhaseOfItsOwn) {
  ArrivalSource a = ArrivalSource::uniform(Rps{1000}, Rng(1));
  ArrivalSource b = ArrivalSource::of(EvenArrivals{}, Rps{1000}, Rng(2));
  const Nanos first = a.next(), other = b.next();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 1'000'000);
  EXPECT_NE(first, other);
  for (int i = 1; i < 1000; ++i) {
    EXPECT_NEAR(static_cast<double>(a.next() - first), i * 1e6, 1);
  }
}

TEST(ArrivalSource, RecordedTimesComeBackThenNeverAgain) {
  const std::vector<double> times = {0, 0.25, 0.25, 2};
  ArrivalSource source = ArrivalSource::recorded(times);
  EXPECT_EQ(source.next(), 0);
  EXPECT_EQ(source.next(), 250'000'000);
  EXPECT_EQ(source.next(), 250'000'000);
  EXPECT_EQ(source.next(), 2'000'000'000);
  EXPECT_EQ(source.next(), kForever);
  EXPECT_EQ(ArrivalSource().next(), kForever);
}

// Gamma gaps of shape 2, 1/2 and 1 have elementary distributions; 2 and 1/2 take both ways of
// drawing.
TEST(ArrivalSource, GammaGapsHaveTheirDistribution) {
  constexpr double kRate = 80;
  const auto law = [](double cv) {
    return gaps_of(ArrivalSource::of(GammaArrivals{cv}, Rps{kRate}, Rng(5)), 100'000);
  };
  EXPECT_LT(distance(law(std::sqrt(0.5)),
                     [](double t) {
                       const double x = 2 * kRate * t;
                       return 1 - std::exp(-x) * (1 + x);
                     }),
            1);
  EXPECT_LT(
      distance(law(std::sqrt(2.0)), [](double t) { return std::erf(std::sqrt(0.5 * kRate * t)); }),
      1);
  EXPECT_LT(distance(law(1), [](double t) { return -std::expm1(-kRate * t); }), 1);
  EXPECT_GT(distance(law(2), [](double t) { return -std::expm1(-kRate * t); }), 10);
}

TEST(ArrivalSource, GammaGapsHaveTheirMeanAndVariation) {
  for (const double cv : {0.25, 2.0, 4.0}) {
    const Moments gaps =
        moments_of(gaps_of(ArrivalSource::of(GammaArrivals{cv}, Rps{20}, Rng(9)), 400'000));
    EXPECT_NEAR(gaps.mean, 0.05, 5 * gaps.mean_error()) << cv;
    EXPECT_NEAR(std::sqrt(gaps.variance) / gaps.mean, cv, 0.03 * cv) << cv;
  }
}

// The variance of the number of renewals in a long time is cv^2 times its mean; and a process in
// its steady state has its mean from the first moment on, where one that begins with a whole gap
// has (cv^2 - 1) / 2 requests more soon.
TEST(ArrivalSource, GammaCountsAreDispersedAndSteady) {
  const Moments many = counts_of(GammaArrivals{2}, Rps{50}, 60, 4000);
  EXPECT_NEAR(many.mean, 3000, 5 * many.mean_error());
  EXPECT_NEAR(many.dispersion(), 4, 0.35);
  const Moments few = counts_of(GammaArrivals{3}, Rps{1}, 2, 100'000);
  EXPECT_NEAR(few.mean, 2, 5 * few.mean_error());
}

// With on-rate a, off-rate b, a fraction d of the time on in a cycle of e seconds, and a window of
// T seconds, no longer than the burst and the pause: the integral of the rate has the variance
// (a - b)^2 (d (1 - d) T^2 - T^3 / (3 e)), to which Poisson adds the mean.
TEST(ArrivalSource, BurstsHaveTheirMeanAndDispersion) {
  const OnOff on_off{.peak = 3, .seconds = 5, .every = 25};
  constexpr double kRate = 8, kWindow = 4, kOn = 0.2;
  EXPECT_DOUBLE_EQ(on_off.quiet(), 0.5);
  const Moments counts = counts_of(BurstArrivals{on_off}, Rps{kRate}, kWindow, 40'000);
  const double step = kRate * (3 - 0.5);
  const double variance =
      kRate * kWindow + step * step * (kOn * (1 - kOn) * 16 - 64.0 / (3 * on_off.every));
  EXPECT_NEAR(counts.mean, kRate * kWindow, 5 * counts.mean_error());
  EXPECT_NEAR(counts.variance, variance, 0.04 * variance);
  // Over whole cycles nothing but Poisson is left.
  const Moments cycles = counts_of(BurstArrivals{on_off}, Rps{kRate}, 50, 10'000);
  EXPECT_NEAR(cycles.dispersion(), 1, 0.08);
}

TEST(ArrivalSource, BurstsOfAllTheTrafficLeaveSilence) {
  const OnOff on_off{.peak = 4, .seconds = 1, .every = 4};
  const auto gaps = gaps_of(ArrivalSource::of(BurstArrivals{on_off}, Rps{200}, Rng(2)), 20'000);
  const auto silent = std::count_if(gaps.begin(), gaps.end(), [](double g) { return g > 1; });
  EXPECT_NEAR(static_cast<double>(silent), 20'000 / 800.0, 1);
  for (const double gap : gaps) EXPECT_TRUE(gap < 0.05 || (gap > 3 && gap < 3.05)) << gap;
}

// Covariance of the rate at distance u: (a - b)^2 d (1 - d) e^(-g u) with g = 1/on + 1/off.
TEST(ArrivalSource, MmppHasItsMeanAndDispersion) {
  const OnOff on_off{.peak = 3, .seconds = 2, .every = 10};
  constexpr double kRate = 10;
  const double g = 1 / 2.0 + 1 / 8.0, step = kRate * (3 - 0.5);
  for (const double window : {1.0, 6.0, 100.0}) {
    const Moments counts = counts_of(MmppArrivals{on_off}, Rps{kRate}, window, 20'000);
    const double spread =
        2 * step * step * 0.2 * 0.8 * (window / g - (1 - std::exp(-g * window)) / (g * g));
    const double variance = kRate * window + spread;
    EXPECT_NEAR(counts.mean, kRate * window, 5 * counts.mean_error()) << window;
    EXPECT_NEAR(counts.variance, variance, 0.06 * variance) << window;
  }
}

TEST(ArrivalSource, TimesAreStretchedToTheRateAndRepeat) {
  // Five times in 10 s; the mean gap of 2 s separates the last from the next first.
  const TraceArrivals trace = playing({{3, 4, 4, 9, 11}, {}});
  EXPECT_DOUBLE_EQ(trace.trace->mean().value, 0.5);
  ArrivalSource as_it_is = ArrivalSource::of(trace, Rps{0.5}, Rng(1));
  ArrivalSource faster = ArrivalSource::of(trace, Rps{5}, Rng(1));
  for (const double time : {0.0, 1.0, 1.0, 6.0, 8.0, 10.0, 11.0, 11.0, 16.0, 18.0, 20.0}) {
    EXPECT_NEAR(static_cast<double>(as_it_is.next()), time * kSecond, 10) << time;
    EXPECT_NEAR(static_cast<double>(faster.next()), time * kSecond / 10, 10) << time;
  }
}

TEST(ArrivalSource, CountsPerMinuteArePoissonInTheirMinute) {
  const TraceArrivals trace = playing({{}, {30, 0, 90}});
  EXPECT_DOUBLE_EQ(trace.trace->mean().value, 120 / 180.0);
  std::vector<double> first, second, third, again;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    ArrivalSource source = ArrivalSource::of(trace, 2.0 * trace.trace->mean(), Rng(seed));
    std::vector<double> counts(4);
    for (;;) {
      const double minute = static_cast<double>(source.next()) / (60 * kSecond);
      if (minute >= 4) break;
      ++counts[static_cast<std::size_t>(minute)];
    }
    first.push_back(counts[0]);
    second.push_back(counts[1]);
    third.push_back(counts[2]);
    again.push_back(counts[3]);
  }
  const auto expect = [](const std::vector<double>& counts, double mean) {
    const Moments m = moments_of(counts);
    EXPECT_NEAR(m.mean, mean, 5 * std::sqrt(mean / m.samples));
    EXPECT_NEAR(m.dispersion(), 1, 0.12);
  };
  expect(first, 60);
  expect(third, 180);
  expect(again, 60);
  EXPECT_EQ(moments_of(second).mean, 0);
}

TEST(ArrivalSource, ASlowServiceDoesNotOverflowTheClock) {
  const OnOff on_off{.peak = 2, .seconds = 1, .every = 3};
  const Arrivals laws[] = {PoissonArrivals{},     EvenArrivals{},       GammaArrivals{2},
                           BurstArrivals{on_off}, MmppArrivals{on_off}, playing({{1, 2}, {}}),
                           playing({{}, {1, 2}})};
  for (const Arrivals& law : laws) {
    const auto* trace = std::get_if<TraceArrivals>(&law);
    ArrivalSource source = ArrivalSource::of(law, Rps{1e-300}, Rng(1));
    if (trace && !trace->trace->times_s.empty()) {
      EXPECT_EQ(source.next(), 0);
    }
    EXPECT_EQ(source.next(), kForever) << to_string(law);
    EXPECT_EQ(source.next(), kForever) << to_string(law);
  }
}

// A copy goes on alone, and the same seed gives the same times.
TEST(ArrivalSource, IsAValue) {
  const OnOff on_off{.peak = 2, .seconds = 1, .every = 3};
  const Arrivals laws[] = {GammaArrivals{2}, BurstArrivals{on_off}, MmppArrivals{on_off},
                           playing({{}, {1, 2}})};
  for (const Arrivals& law : laws) {
    ArrivalSource a = ArrivalSource::of(law, Rps{3}, Rng(1));
    for (int i = 0; i < 5; ++i) a.next();
    ArrivalSource copy = a, same = ArrivalSource::of(law, Rps{3}, Rng(1));
    for (int i = 0; i < 5; ++i) same.next();
    for (int i = 0; i < 100; ++i) {
      const Nanos next = a.next();
      EXPECT_EQ(copy.next(), next);
      EXPECT_EQ(same.next(), next);
    }
  }
}

}  // namespace
}  // namespace partita::plan
