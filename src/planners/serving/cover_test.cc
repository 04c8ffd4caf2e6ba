#include "planners/serving/cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"

namespace partita::planners::serving {
namespace {

constexpr int kClasses = 4;

Kind random_kind(Rng& rng) {
  Kind kind;
  double rate = 0;
  for (std::size_t k = 0; k < kClasses; ++k) {
    rate += 10 + 90 * rng.uniform();
    if (rng.below(5) > 0) kind.rate[k] = rate;
  }
  kind.rate[1] = std::max(kind.rate[1], 20.0);
  kind.demand = 1 + 500 * rng.uniform();
  kind.min_count = 1 + static_cast<int>(rng.below(4));
  return kind;
}

// Calls visit for every count vector with at most `most` instances per class.
void for_all(int most, const std::function<void(const Counts&)>& visit) {
  Counts c{};
  for (c[0] = 0; c[0] <= most; ++c[0])
    for (c[1] = 0; c[1] <= most; ++c[1])
      for (c[2] = 0; c[2] <= most; ++c[2])
        for (c[3] = 0; c[3] <= most; ++c[3]) visit(c);
}

bool uses_only_rated(const Kind& kind, const Counts& counts) {
  for (std::size_t k = 0; k < kClasses; ++k)
    if (counts[k] > 0 && kind.rate[k] == 0) return false;
  return true;
}

TEST(Cover, CheapestEqualsBruteForce) {
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    Kind kind = random_kind(rng);
    for (const double rate : kind.rate)
      if (rate > 0) kind.demand = std::min(kind.demand, 7 * rate);
    Prices prices{};
    for (std::size_t k = 0; k < kClasses; ++k) prices[k] = rng.below(4) ? rng.uniform() * 5 : 0;
    double best = 1e300;
    for_all(11, [&](const Counts& c) {
      if (uses_only_rated(kind, c) && covers(kind, c, kClasses))
        best = std::min(best, cost(c, prices, kClasses));
    });
    const PricedCover found = cheapest_cover(kind, prices, kClasses);
    EXPECT_NEAR(found.bound, best, 1e-9);
    EXPECT_NEAR(cost(found.counts, prices, kClasses), best, 1e-9);
    EXPECT_TRUE(covers(kind, found.counts, kClasses));
    EXPECT_TRUE(uses_only_rated(kind, found.counts));
  }
}

// Whatever non-negative, size-monotone weights are asked for, an enumerated cover is as light as
// the lightest cover.
TEST(Cover, EnumerationHoldsTheLightestCoverForMonotoneWeights) {
  Rng rng(2);
  const Smaller smaller = {{}, {0}, {0, 1}, {0, 1, 2}};
  for (int round = 0; round < 40; ++round) {
    Kind kind = random_kind(rng);
    Prices unit{};
    std::fill_n(unit.begin(), kClasses, 1.0);
    const Enumeration all = enumerate_covers(kind, unit, smaller, {1e9, 100'000});
    ASSERT_TRUE(all.complete || kind.min_count > 1);
    for (int trial = 0; trial < 20; ++trial) {
      Prices weights{};
      double sum = 0;
      for (std::size_t k = 0; k < kClasses; ++k) weights[k] = sum += rng.uniform();
      double lightest = 1e300;
      for (const Counts& c : all.covers) {
        EXPECT_TRUE(covers(kind, c, kClasses));
        lightest = std::min(lightest, cost(c, weights, kClasses));
      }
      EXPECT_NEAR(lightest, cheapest_cover(kind, weights, kClasses).bound, 1e-9);
    }
  }
}

TEST(Cover, EnumerationKeepsItsLimits) {
  Kind kind;
  kind.rate = {1, 1.9, 2.7, 3.5};
  kind.demand = 100;
  Prices gpcs{1, 2, 3, 4};
  const Smaller smaller = {{}, {0}, {0, 1}, {0, 1, 2}};
  const double least = cheapest_cover(kind, gpcs, kClasses).bound;
  EXPECT_EQ(least, 100);
  const Enumeration ties = enumerate_covers(kind, gpcs, smaller, {least, 1000});
  ASSERT_EQ(ties.covers.size(), 1u);  // only the smallest class has a whole rate per slice
  EXPECT_EQ(ties.covers[0][0], 100);
  EXPECT_FALSE(enumerate_covers(kind, gpcs, smaller, {least + 50, 10}).complete);
}

TEST(Cover, HugeDemandsArePricedAtOnce) {
  Kind kind;
  kind.rate = {1.01, 2.03, 3.01, 4.07};
  kind.demand = 5e6;
  const Prices prices{1, 2, 3, 4};
  const PricedCover found = cheapest_cover(kind, prices, kClasses);
  EXPECT_TRUE(covers(kind, found.counts, kClasses));
  EXPECT_LE(found.bound, cost(found.counts, prices, kClasses));
  EXPECT_NEAR(found.bound / (5e6 / 4.07 * 4), 1, 1e-5);
}

}  // namespace
}  // namespace partita::planners::serving
