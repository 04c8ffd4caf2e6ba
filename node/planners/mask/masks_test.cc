#include "planners/mask/masks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::planners::mask {
namespace {

using testing::ElementsAre;

const hw::Topology kMi50 = *hw::topology_named("MI50");

std::vector<int> shares(int units, Policy policy) {
  const Grant grant = allocate(kMi50, Busy(60), {units, policy, 0});
  EXPECT_EQ(grant.granted, units);
  return hw::units_per_cluster(kMi50, grant.mask);
}

TEST(Masks, NineteenUnitsAsInFigure38) {
  EXPECT_THAT(shares(19, Policy::packed), ElementsAre(15, 4, 0, 0));
  EXPECT_THAT(shares(19, Policy::distributed), ElementsAre(5, 5, 5, 4));
  EXPECT_THAT(shares(19, Policy::conserved), ElementsAre(10, 9, 0, 0));
  EXPECT_THAT(shares(19, Policy::krisp), ElementsAre(10, 9, 0, 0));
  EXPECT_THAT(shares(19, Policy::fair), ElementsAre(10, 9, 0, 0));
}

TEST(Masks, EffectiveUnitsOnAnIdleGpu) {
  const auto effective = [](int units, Policy policy) {
    return effective_units(kMi50, allocate(kMi50, Busy(60), {units, policy, 0}).mask);
  };
  const int wanted[] = {7, 11, 15, 16, 31, 46};
  const int packed[] = {7, 11, 15, 2, 3, 4}, distributed[] = {4, 8, 12, 16, 28, 44},
            conserved[] = {7, 11, 15, 16, 30, 44};
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    EXPECT_EQ(effective(wanted[i], Policy::packed), packed[i]) << wanted[i];
    EXPECT_EQ(effective(wanted[i], Policy::distributed), distributed[i]) << wanted[i];
    EXPECT_EQ(effective(wanted[i], Policy::conserved), conserved[i]) << wanted[i];
  }
}

struct State {
  hw::Topology topology;
  Busy busy;
  Request request;
};

State random_state(Rng& rng) {
  State state;
  const int clusters = 1 + static_cast<int>(rng.below(8));
  state.topology = hw::generic_topology(clusters, 1);
  for (int& units : state.topology.units_in) units = 1 + static_cast<int>(rng.below(18));
  const double load = rng.uniform();
  for (int i = 0; i < state.topology.units(); ++i)
    state.busy.push_back(rng.uniform() < load ? 1 + static_cast<int>(rng.below(3)) : 0);
  state.request.units =
      1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(state.topology.units())));
  state.request.overlap_limit = rng.below(3) == 0 ? static_cast<int>(rng.below(20)) : 0;
  return state;
}

// Most of min(n, k min(idle)) over all choices of clusters and shares, by trying every k.
int best_effective(const State& state) {
  std::vector<int> idle;
  std::size_t unit = 0;
  for (const int size : state.topology.units_in) {
    int count = 0;
    for (int i = 0; i < size; ++i) count += state.busy[unit++] == 0;
    idle.push_back(count);
  }
  std::ranges::sort(idle, std::greater{});
  int best = 0;
  for (std::size_t k = 1; k <= idle.size(); ++k) {
    // With k clusters no share can exceed the k-th largest, nor n in all.
    for (int share = 1; share <= idle[k - 1]; ++share) {
      const int units = static_cast<int>(k) * share;
      if (units <= state.request.units) best = std::max(best, units);
    }
  }
  return best;
}

TEST(Masks, KeepTheirPromisesInRandomStates) {
  Rng rng(1);
  for (int round = 0; round < test_rounds(20'000); ++round) {
    State state = random_state(rng);
    const int idle = static_cast<int>(std::ranges::count(state.busy, 0));
    for (const Policy policy : kPolicies) {
      state.request.policy = policy;
      const Grant grant = allocate(state.topology, state.busy, state.request);
      int units = 0, overlapped = 0;
      for (std::size_t unit = 0; unit < hw::kMaxUnits; ++unit) {
        if (!grant.mask[unit]) continue;
        ASSERT_LT(unit, state.busy.size());
        ++units;
        overlapped += state.busy[unit] > 0;
      }
      ASSERT_EQ(grant.granted, units);
      ASSERT_EQ(grant.overlapped, overlapped);
      ASSERT_LE(units, state.request.units);
      ASSERT_LE(overlapped, state.request.overlap_limit);
      if (policy == Policy::fair) {
        ASSERT_EQ(units, std::min(state.request.units, idle + state.request.overlap_limit));
      }
      if (policy == Policy::balanced && state.request.overlap_limit == 0) {
        ASSERT_GE(effective_units(state.topology, grant.mask), best_effective(state));
        ASSERT_EQ(units > 0, idle > 0);
      }
    }
  }
}

// The most that equal shares of all dies allow, by trying every share and every number of dies with
// one more; 0 when some die can give none.
int most_in_equal_shares(const State& state) {
  const hw::Topology& topology = state.topology;
  const int wanted = std::max(state.request.units, topology.dies);
  int best = 0;
  for (int share = 1; share * topology.dies <= wanted && share <= topology.units_in[0]; ++share) {
    // What one more than the share costs on every die; sorted, the cheapest dies come first.
    int overlapped = 0;
    std::vector<int> more;
    for (int die = 0; die < topology.dies; ++die) {
      const auto first = state.busy.begin() + die * topology.units_in[0];
      const int idle = static_cast<int>(std::count(first, first + topology.units_in[0], 0));
      overlapped += std::max(0, share - idle);
      if (share < topology.units_in[0]) more.push_back(share < idle ? 0 : 1);
    }
    if (overlapped > state.request.overlap_limit) break;
    best = std::max(best, share * topology.dies);
    if (state.request.policy == Policy::balanced) continue;
    std::ranges::sort(more);
    for (std::size_t extra = 1; extra <= more.size(); ++extra) {
      overlapped += more[extra - 1];
      const int units = share * topology.dies + static_cast<int>(extra);
      if (overlapped > state.request.overlap_limit || units > wanted) break;
      best = std::max(best, units);
    }
  }
  return best;
}

TEST(Masks, HaveEqualSharesOfEveryDie) {
  Rng rng(3);
  for (int round = 0; round < test_rounds(5'000); ++round) {
    State state;
    const int dies = 2 + static_cast<int>(rng.below(7));
    state.topology = hw::generic_topology(dies, 1 + static_cast<int>(rng.below(12)));
    state.topology.dies = dies;
    const double load = rng.uniform();
    for (int i = 0; i < state.topology.units(); ++i)
      state.busy.push_back(rng.uniform() < load ? 1 + static_cast<int>(rng.below(3)) : 0);
    state.request.units = 1 + static_cast<int>(rng.below(state.busy.size()));
    state.request.overlap_limit = rng.below(3) == 0 ? static_cast<int>(rng.below(20)) : 0;
    for (const Policy policy : kPolicies) {
      state.request.policy = policy;
      const Grant grant = allocate(state.topology, state.busy, state.request);
      ASSERT_EQ(grant.granted, most_in_equal_shares(state)) << to_string(policy);
      ASSERT_EQ(grant.granted, static_cast<int>(grant.mask.count()));
      int overlapped = 0;
      for (std::size_t unit = 0; unit < state.busy.size(); ++unit)
        overlapped += grant.mask[unit] && state.busy[unit] > 0;
      ASSERT_EQ(grant.overlapped, overlapped);
      ASSERT_LE(overlapped, state.request.overlap_limit);
      if (grant.granted == 0) continue;
      const auto shares = hw::units_per_die(state.topology, grant.mask);
      const auto [least, most] = std::ranges::minmax(shares);
      ASSERT_GE(least, 1) << to_string(policy);
      ASSERT_LE(most - least, 1) << to_string(policy);
    }
  }
}

// 304 CUs: nineteen are two or three of each die, and three are one of each.
TEST(Masks, OnMi300xLeaveNoDieOut) {
  const hw::Topology mi300x = *hw::topology_named("MI300X");
  for (const Policy policy : kPolicies) {
    const auto shares = [&](int units) {
      const Grant grant = allocate(mi300x, Busy(304), {units, policy, 0});
      return hw::units_per_die(mi300x, grant.mask);
    };
    if (policy != Policy::balanced) {
      EXPECT_THAT(shares(19), ElementsAre(3, 3, 3, 2, 2, 2, 2, 2)) << to_string(policy);
    }
    EXPECT_THAT(shares(3), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1)) << to_string(policy);
    EXPECT_THAT(shares(304), testing::Each(38)) << to_string(policy);
  }
  EXPECT_EQ(allocate(mi300x, Busy(304), {19, Policy::balanced, 0}).granted, 16);
}

TEST(Masks, KrispAsPrintedRefusesIdleUnits) {
  // One cluster that another kernel fills, one that is idle but counts more kernels: the printed
  // counter runs over its limit in the first and refuses the second.
  const hw::Topology two = hw::generic_topology(2, 4);
  const Busy busy{1, 1, 1, 1, 9, 0, 0, 0};
  EXPECT_EQ(allocate(two, busy, {8, Policy::krisp, 0}).granted, 0);
  EXPECT_EQ(allocate(two, busy, {8, Policy::fair, 0}).granted, 3);
}

// Algorithm 1 line by line: clusters and then units sorted by their kernels, one unit at a time.
hw::UnitMask krisp_line_by_line(const State& state) {
  std::vector<std::vector<int>> clusters;
  int first = 0;
  const auto count = [&](int unit) { return state.busy[static_cast<std::size_t>(unit)]; };
  for (const int size : state.topology.units_in) {
    std::vector<int>& units = clusters.emplace_back(static_cast<std::size_t>(size));
    std::iota(units.begin(), units.end(), first);
    std::ranges::stable_sort(units, {}, count);
    first += size;
  }
  std::ranges::stable_sort(clusters, {}, [&](const std::vector<int>& units) {
    return std::accumulate(units.begin(), units.end(), 0,
                           [&](int sum, int unit) { return sum + count(unit); });
  });
  const int wanted = state.request.units, size = static_cast<int>(clusters[0].size());
  const int used = std::min((wanted + size - 1) / size, state.topology.clusters());
  const int per_cluster = (wanted + used - 1) / used;
  hw::UnitMask mask;
  int allocated = 0, overlapped = 0;
  for (int c = 0; c < used; ++c) {
    const std::vector<int>& units = clusters[static_cast<std::size_t>(c)];
    for (int j = 0; j < per_cluster && j < static_cast<int>(units.size()) && allocated < wanted;
         ++j, ++allocated) {
      const int unit = units[static_cast<std::size_t>(j)];
      overlapped += count(unit) > 0;
      if (overlapped <= state.request.overlap_limit) mask.set(static_cast<std::size_t>(unit));
    }
  }
  return mask;
}

TEST(Masks, KrispIsTheAlgorithmAsPrinted) {
  Rng rng(11);
  for (int round = 0; round < test_rounds(20'000); ++round) {
    State state = random_state(rng);
    state.request.policy = Policy::krisp;
    const Grant grant = allocate(state.topology, state.busy, state.request);
    ASSERT_EQ(grant.mask, krisp_line_by_line(state)) << round;
    ASSERT_EQ(grant.granted, static_cast<int>(grant.mask.count()));
  }
}

}  // namespace
}  // namespace partita::planners::mask
