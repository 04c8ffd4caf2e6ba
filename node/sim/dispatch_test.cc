// The figures of the dispatcher on 4 x 15 units (Chow 2022, Figure 3.9), position by position, with
// masks written out by hand; the closed form against the events; the control.
#include "sim/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::sim {
namespace {

constexpr int kDispatchUnits = 60;

// The first shares[c] units of every cluster c.
hw::UnitMask mask_of(const hw::Topology& topology, const std::vector<int>& shares) {
  hw::UnitMask mask;
  std::size_t first = 0;
  for (std::size_t c = 0; c < shares.size(); ++c) {
    for (int i = 0; i < shares[c]; ++i) mask.set(first + static_cast<std::size_t>(i));
    first += static_cast<std::size_t>(topology.units_in[c]);
  }
  return mask;
}

std::vector<int> over(int n, int clusters) {
  std::vector<int> shares(4, 0);
  for (int i = 0; i < n; ++i) ++shares[static_cast<std::size_t>(i % clusters)];
  return shares;
}
std::vector<int> packed(int n) {
  return {std::min(n, 15), std::clamp(n - 15, 0, 15), std::clamp(n - 30, 0, 15),
          std::clamp(n - 45, 0, 15)};
}
std::vector<int> distributed(int n) { return over(n, 4); }
std::vector<int> conserved(int n) { return over(n, (n + 14) / 15); }

// Enough work-groups for waves not to matter: 1/2000 at most.
constexpr GroupKernel kLong{120'000, 1, 1, 0};

// The time on 1 .. 60 units, from index 1.
std::vector<double> curve(std::vector<int> (*shares)(int), Dispatcher dispatcher) {
  std::vector<double> times{0};
  for (int n = 1; n <= kDispatchUnits; ++n)
    times.push_back(dispatch_time_us(shares(n), kLong, dispatcher));
  return times;
}

// Where one more unit makes the kernel slower.
std::vector<int> rises(const std::vector<double>& times) {
  std::vector<int> at;
  for (int n = 2; n <= kDispatchUnits; ++n)
    if (times[static_cast<std::size_t>(n)] > times[static_cast<std::size_t>(n - 1)])
      at.push_back(n);
  return at;
}

// The time against that of n units all busy.
double over_ideal(const std::vector<double>& times, int n) {
  return times[static_cast<std::size_t>(n)] * n / kLong.groups;
}

using Positions = std::vector<int>;

TEST(Dispatch, OneMoreUnitMakesPackedSlowerAtThreePlaces) {
  const std::vector<double> times = curve(packed, Dispatcher::equal_split);
  EXPECT_EQ(rises(times), (Positions{16, 31, 46}));
  EXPECT_NEAR(times[16] / times[15], 15.0 / 2, 0.01);
  EXPECT_NEAR(times[31] / times[30], 30.0 / 3, 0.01);
  EXPECT_NEAR(times[46] / times[45], 45.0 / 4, 0.01);
}

TEST(Dispatch, DistributedIsWorstBelowMultiplesOfFour) {
  const std::vector<double> times = curve(distributed, Dispatcher::equal_split);
  EXPECT_EQ(rises(times), Positions{});
  Positions peaks;
  for (int n = 2; n < kDispatchUnits; ++n)
    if (over_ideal(times, n) > over_ideal(times, n - 1) &&
        over_ideal(times, n) > over_ideal(times, n + 1))
      peaks.push_back(n);
  std::ranges::stable_sort(
      peaks, [&](int a, int b) { return over_ideal(times, a) > over_ideal(times, b); });
  peaks.resize(3);
  EXPECT_EQ(peaks, (Positions{7, 11, 15}));
  EXPECT_NEAR(over_ideal(times, 7), 1.75, 0.001);
  EXPECT_NEAR(over_ideal(times, 11), 1.375, 0.001);
  EXPECT_NEAR(over_ideal(times, 15), 1.25, 0.001);
}

TEST(Dispatch, ConservedIsNeverFarFromIdeal) {
  const std::vector<double> times = curve(conserved, Dispatcher::equal_split);
  double worst = 1;
  for (int n = 1; n <= kDispatchUnits; ++n) worst = std::max(worst, over_ideal(times, n));
  EXPECT_LT(worst, 1.08);
  EXPECT_NEAR(worst, 47.0 / 44, 0.001);
}

TEST(Dispatch, WorkConservingShowsNoneOfThis) {
  for (const auto shares : {packed, distributed, conserved}) {
    const std::vector<double> times = curve(shares, Dispatcher::work_conserving);
    EXPECT_EQ(rises(times), Positions{});
    for (int n = 1; n <= kDispatchUnits; ++n) EXPECT_NEAR(over_ideal(times, n), 1, 0.001);
  }
}

// The closed form is what happens, also on the very masks of the figures.
TEST(Dispatch, EventsTakeWhatTheClosedFormSays) {
  const hw::Topology mi50 = hw::generic_topology(4, 15);
  for (int n = 1; n <= kDispatchUnits; ++n)
    for (const auto shares : {packed, distributed, conserved})
      for (const Dispatcher rule : {Dispatcher::equal_split, Dispatcher::work_conserving}) {
        const GroupKernel kernel{601, 2, 3, 0};
        EXPECT_EQ(dispatch(mi50, mask_of(mi50, shares(n)), kernel, rule).time_us,
                  dispatch_time_us(shares(n), kernel, rule))
            << n;
      }
  Rng rng(7);
  for (int round = 0; round < test_rounds(1000); ++round) {
    hw::Topology topology;
    std::vector<int> shares;
    for (int c = 0; c < 1 + static_cast<int>(rng.below(6)); ++c) {
      topology.units_in.push_back(1 + static_cast<int>(rng.below(9)));
      const auto most = static_cast<std::uint64_t>(topology.units_in.back());
      shares.push_back(static_cast<int>(rng.below(most + 1)));
    }
    if (std::ranges::count(shares, 0) == std::ssize(shares)) shares.back() = 1;
    const GroupKernel kernel{1 + static_cast<int>(rng.below(300)),
                             1 + static_cast<int>(rng.below(4)), 5, 0};
    const hw::UnitMask mask = mask_of(topology, shares);
    EXPECT_EQ(hw::units_per_cluster(topology, mask), shares);
    for (const Dispatcher rule : {Dispatcher::equal_split, Dispatcher::work_conserving})
      EXPECT_EQ(dispatch(topology, mask, kernel, rule).time_us,
                dispatch_time_us(shares, kernel, rule));
  }
}

// Work-groups of different lengths: nothing is lost, nothing runs outside the mask, the same seed
// gives the same events, and the control keeps the bound of list scheduling.
TEST(Dispatch, UnequalWorkGroups) {
  const hw::Topology mi50 = hw::generic_topology(4, 15);
  const GroupKernel kernel{997, 2, 10, 0.4};
  for (const int n : {1, 7, 16, 31, 60}) {
    const hw::UnitMask mask = mask_of(mi50, packed(n));
    const Dispatch one = dispatch(mi50, mask, kernel, Dispatcher::equal_split, 1);
    EXPECT_EQ(one, dispatch(mi50, mask, kernel, Dispatcher::equal_split, 1));
    EXPECT_NE(one.log_hash, dispatch(mi50, mask, kernel, Dispatcher::equal_split, 2).log_hash);
    int groups = 0;
    for (std::size_t unit = 0; unit < one.groups_on.size(); ++unit) {
      groups += one.groups_on[unit];
      EXPECT_TRUE(mask[unit] || one.groups_on[unit] == 0);
    }
    EXPECT_EQ(groups, kernel.groups);
    EXPECT_LE(one.effective_units, n + 1e-9);
    const Dispatch control = dispatch(mi50, mask, kernel, Dispatcher::work_conserving, 1);
    const double bound = control.effective_units * control.time_us / n + 10 * (1 + kernel.spread);
    EXPECT_LE(control.time_us, bound);
  }
}

}  // namespace
}  // namespace partita::sim
