#include "planners/serving/cover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <set>
#include <utility>
#include <vector>

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

// Little room and much that is asked for: what can be afforded is looked at, not what cannot.
TEST(Cover, HugeDemandsAreEnumeratedAtOnce) {
  const Smaller smaller = {{}, {0}, {0, 1}, {0, 1, 2}};
  const Prices prices{1, 2, 3, 4};
  Kind kind;
  kind.rate = {1, 2.0001, 3.0002, 3.9999};
  const auto began = std::clock();
  std::size_t listed = 0;
  for (const double demand : {3e5, 5e7}) {
    kind.demand = demand;
    const double budget = cheapest_cover(kind, prices, kClasses).bound + 3;
    const Enumeration found = enumerate_covers(kind, prices, smaller, {budget, 1000});
    listed += found.covers.size();
    for (const Counts& counts : found.covers) {
      EXPECT_TRUE(covers(kind, counts, kClasses));
      EXPECT_LE(cost(counts, prices, kClasses), budget);
    }
  }
  EXPECT_GT(listed, 0u);
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 0.5);
}

// ---- several modes ----

// A service that can be run in two to four ways; classes that one way cannot use another may.
Kind random_modal_kind(Rng& rng) {
  Kind kind = random_kind(rng);
  kind.demand = 50 + 250 * rng.uniform();
  for (auto more = 1 + rng.below(3); more > 0; --more) {
    Mode other = random_kind(rng);
    other.demand = 50 + 250 * rng.uniform();
    kind.others.push_back(other);
  }
  if (rng.below(4) == 0) kind.rate = {};  // its own mode may be of no use at all
  return kind;
}

// The modes that carry it, by their definition: only classes it can use, and enough of them. With a
// rate per demand that says how much is to spare.
std::vector<std::pair<double, int>> modes_by_hand(const Kind& kind, const Counts& counts) {
  std::vector<std::pair<double, int>> found;
  for (int m = 0; m < modes(kind); ++m) {
    double sum = 0;
    bool can = true;
    for (std::size_t k = 0; k < kClasses; ++k) {
      can = can && (counts[k] == 0 || mode(kind, m).rate[k] > 0);
      sum += counts[k] * mode(kind, m).rate[k];
    }
    if (can && sum >= mode(kind, m).demand) found.emplace_back(sum / mode(kind, m).demand, m);
  }
  return found;
}

TEST(CoverModes, TheModeOfCountsHasMostToSpare) {
  Rng rng(3);
  long several = 0, none = 0;
  for (int round = 0; round < 40; ++round) {
    const Kind kind = random_modal_kind(rng);
    for_all(4, [&](const Counts& c) {
      const auto able = modes_by_hand(kind, c);
      several += able.size() > 1;
      none += able.empty();
      const int found = mode_of(kind, c, kClasses);
      ASSERT_EQ(found, able.empty() ? -1 : std::max_element(able.begin(), able.end())->second);
      ASSERT_EQ(covers(kind, c, kClasses), !able.empty() && total(c) >= kind.min_count);
    });
  }
  EXPECT_GT(several, 100);  // both are common, or the test says little
  EXPECT_GT(none, 100);
}

TEST(CoverModes, ClassesOfDifferentModesDoNotAddUp) {
  Kind kind;
  kind.rate = {10, 0};
  kind.demand = 20;
  kind.others = {Mode{{0, 30}, 60}};
  EXPECT_EQ(mode_of(kind, Counts{2, 0}, kClasses), 0);
  EXPECT_EQ(mode_of(kind, Counts{0, 2}, kClasses), 1);
  EXPECT_EQ(mode_of(kind, Counts{1, 1}, kClasses), -1);
  EXPECT_EQ(mode_of(kind, Counts{2, 2}, kClasses), -1);
  EXPECT_TRUE(usable(kind, 0) && usable(kind, 1));
  EXPECT_FALSE(usable(kind, 2));
}

TEST(CoverModes, CheapestEqualsBruteForce) {
  Rng rng(4);
  long by_others = 0;
  for (int round = 0; round < 60; ++round) {
    Kind kind = random_modal_kind(rng);
    for (int m = 0; m < modes(kind); ++m) {
      Mode& one = m == 0 ? kind : kind.others[static_cast<std::size_t>(m - 1)];
      for (const double rate : one.rate)
        if (rate > 0) one.demand = std::min(one.demand, 7 * rate);
    }
    Prices prices{};
    for (std::size_t k = 0; k < kClasses; ++k) prices[k] = rng.below(4) ? rng.uniform() * 5 : 0;
    double best = 1e300;
    for_all(11, [&](const Counts& c) {
      if (total(c) >= kind.min_count && !modes_by_hand(kind, c).empty())
        best = std::min(best, cost(c, prices, kClasses));
    });
    const PricedCover found = cheapest_cover(kind, prices, kClasses);
    EXPECT_NEAR(found.bound, best, 1e-9);
    EXPECT_NEAR(cost(found.counts, prices, kClasses), best, 1e-9);
    EXPECT_TRUE(covers(kind, found.counts, kClasses));
    by_others += mode_of(kind, found.counts, kClasses) > 0;
  }
  EXPECT_GT(by_others, 5);
}

// Every cover that cannot be shrunk in its mode is listed, and no other.
TEST(CoverModes, EnumerationEqualsBruteForce) {
  Rng rng(5);
  const Smaller smaller = {{}, {0}, {0, 1}, {0, 1, 2}};
  const Prices prices{1, 2, 3, 4};
  int looked_at = 0;
  std::size_t listed = 0;
  for (int round = 0; round < 40; ++round) {
    Kind kind = random_modal_kind(rng);
    kind.min_count = 1;
    kind.demand *= 3;
    for (Mode& other : kind.others) other.demand *= 3;
    const double room[] = {1.5, 1.2, 1.05, 1};
    const double budget = room[round % 4] * cheapest_cover(kind, prices, kClasses).bound;
    const auto most = static_cast<int>(budget);  // of the cheapest class, at 1 each
    if (most > 20) continue;
    ++looked_at;
    std::set<Counts> expected;
    for_all(most, [&](const Counts& c) {
      if (cost(c, prices, kClasses) > budget) return;
      for (const auto& [spare, m] : modes_by_hand(kind, c)) {
        const Mode& one = mode(kind, m);
        const double sum = spare * one.demand;
        bool shrinks = false;
        for (std::size_t k = 0; k < kClasses; ++k) {
          if (c[k] == 0) continue;
          shrinks = shrinks || (total(c) > 1 && sum - one.rate[k] >= one.demand);
          for (const int j : smaller[k]) {
            const double other = one.rate[static_cast<std::size_t>(j)];
            shrinks = shrinks || (other > 0 && sum - one.rate[k] + other >= one.demand);
          }
        }
        if (!shrinks) expected.insert(c);
      }
    });
    const Enumeration found = enumerate_covers(kind, prices, smaller, {budget, 100'000});
    EXPECT_TRUE(found.complete);
    EXPECT_EQ(std::set<Counts>(found.covers.begin(), found.covers.end()), expected);
    listed += expected.size();
  }
  EXPECT_GT(looked_at, 10);
  EXPECT_GT(listed, 100U);
}

}  // namespace
}  // namespace partita::planners::serving
