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
