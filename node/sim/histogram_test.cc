#include "sim/histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace partita::sim {
namespace {

// The smallest value with at least percent/100 of all values at or below it, by sorting.
Nanos sorted_percentile(std::vector<Nanos> values, double percent) {
  std::sort(values.begin(), values.end());
  const double wanted = std::ceil(percent / 100 * static_cast<double>(values.size()));
  return values[static_cast<std::size_t>(std::max(1.0, wanted)) - 1];
}

RC_GTEST_PROP(LatencyHistogram, IsWithinAThousandthOfSorting, (std::uint64_t seed)) {
  Rng rng(seed);
  LatencyHistogram histogram;
  for (int round = 0; round < 2; ++round) {  // the second round: nothing remains after clear()
    std::vector<Nanos> values;
    const int scale = static_cast<int>(rng.below(60));
    for (std::uint64_t n = 1 + rng.below(300); n > 0; --n) {
      values.push_back(static_cast<Nanos>(std::exp2(rng.uniform() * scale)));
      histogram.add(values.back());
    }
    RC_ASSERT(histogram.count() == static_cast<long>(values.size()));
    for (const double percent : {0.0, 1.0, 50.0, 95.0, 99.0, 100.0}) {
      const Nanos exact = sorted_percentile(values, percent);
      const double error = std::abs(static_cast<double>(histogram.percentile(percent) - exact));
      RC_ASSERT(error <= 0.001 * static_cast<double>(exact));
    }
    histogram.clear();
  }
}

TEST(LatencyHistogram, SmallValuesAndSingleValuesAreExact) {
  LatencyHistogram histogram;
  EXPECT_EQ(histogram.percentile(99), 0);
  histogram.add(123'456'789);
  EXPECT_EQ(histogram.percentile(50), 123'456'789);
  histogram.clear();
  EXPECT_EQ(histogram.percentile(50), 0);
  for (Nanos v = 0; v < 1024; ++v) histogram.add(v);
  EXPECT_EQ(histogram.percentile(50), 511);
  EXPECT_EQ(histogram.percentile(100), 1023);
}

TEST(LatencyHistogram, TakesTheLongestTime) {
  LatencyHistogram histogram;
  histogram.add(kForever);
  histogram.add(0);
  EXPECT_EQ(histogram.percentile(50), 0);
  EXPECT_GT(histogram.percentile(100), kForever - kForever / 1000);
}

}  // namespace
}  // namespace partita::sim
