#include "planners/mask/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::planners::mask {
namespace {

using testing::ElementsAre;

hw::Topology named(const char* name) { return *hw::topology_named(name); }

TEST(Sizes, AreWholeAtomsAndTheWholeGpu) {
  EXPECT_THAT(hw::mask_sizes(named("H200"), 8),
              ElementsAre(8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 132));
  EXPECT_EQ(hw::mask_sizes(named("H200"), 2).size(), 66u);
  EXPECT_THAT(hw::mask_sizes(hw::generic_topology(2, 3), 1), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(hw::mask_sizes(named("MI300X"), 1).front(), 8);
  EXPECT_EQ(hw::mask_sizes(named("MI300X"), 1).size(), 297u);
}

TEST(Atoms, AreGrantedWhole) {
  const hw::Topology h200 = named("H200");
  const Busy idle(132);
  const Grant eight = allocate_atoms(h200, 8, idle, {19, Policy::packed, 0});
  EXPECT_EQ(eight.granted, 24);
  EXPECT_THAT(hw::units_per_cluster(h200, eight.mask), ElementsAre(16, 8, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(allocate_atoms(h200, 2, idle, {19, Policy::packed, 0}).granted, 20);
  EXPECT_EQ(allocate_atoms(h200, 8, idle, {132, Policy::packed, 0}).granted, 132);
  Busy one = idle;
  one[0] = 3;  // its atom is busy; the other 15 are idle
  EXPECT_EQ(allocate_atoms(h200, 8, one, {132, Policy::packed, 0}).granted, 120);
  const Grant over = allocate_atoms(h200, 8, one, {128, Policy::packed, 8});
  EXPECT_EQ(over.granted, 128);
  EXPECT_EQ(over.overlapped, 1);
  one[8] = 1;  // two busy atoms, of which twelve units are one
  EXPECT_EQ(allocate_atoms(h200, 8, one, {128, Policy::packed, 12}).granted, 120);
}

// Random states on clusters of unequal size, some smaller than an atom: atoms are never split, idle
// ones never refused by the policy that promises so.
TEST(Atoms, AreNeverSplitNorRefused) {
  Rng rng(7);
  for (int round = 0; round < test_rounds(2000); ++round) {
    hw::Topology topology;
    for (int c = 0, n = 1 + static_cast<int>(rng.below(5)); c < n; ++c)
      topology.units_in.push_back(1 + static_cast<int>(rng.below(12)));
    const int widest = *std::ranges::max_element(topology.units_in);
    const int atom = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(widest)));
    Busy busy(static_cast<std::size_t>(topology.units()));
    for (int& count : busy) count = rng.below(3) == 0 ? 1 : 0;
    const int wanted = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(busy.size())));
    const Policy policy = kPolicies[rng.below(kPolicies.size())];
    const Grant grant = allocate_atoms(topology, atom, busy, {wanted, policy, 0});
    int idle_atoms = 0;
    std::size_t unit = 0;
    for (const int units : topology.units_in) {
      int at = 0;
      for (; at + atom <= units; at += atom) {
        int taken = 0, runs = 0;
        for (int i = 0; i < atom; ++i, ++unit) {
          taken += grant.mask[unit];
          runs += busy[unit];
        }
        EXPECT_TRUE(taken == 0 || taken == atom);
        EXPECT_TRUE(taken == 0 || runs == 0);
        idle_atoms += runs == 0;
      }
      for (; at < units; ++at, ++unit)
        EXPECT_TRUE(!grant.mask[unit] || grant.granted == topology.units());
    }
    if (grant.granted == topology.units()) continue;
    const int atoms = (wanted + atom - 1) / atom;
    EXPECT_LE(grant.granted, atom * atoms);
    if (policy == Policy::fair) {
      EXPECT_EQ(grant.granted, atom * std::min(atoms, idle_atoms));
    }
  }
}

// Section IV-A of Quach et al. 2025 for two workers, with the engines renamed.
TEST(Lanes, OfTwoWorkersAreThoseOfEclip) {
  const hw::Topology mi50 = named("MI50");
  const std::vector<int> all{15, 30, 45, 60, 60};
  const plan::Lanes lanes = plan_lanes(mi50, 1, {all, all});
  std::vector<std::vector<int>> shares;
  for (const plan::Lane& lane : lanes.all) shares.push_back(hw::units_per_cluster(mi50, lane.mask));
  EXPECT_THAT(shares, ElementsAre(ElementsAre(15, 0, 0, 0), ElementsAre(15, 0, 15, 0),
                                  ElementsAre(15, 0, 15, 15), ElementsAre(15, 15, 15, 15),
                                  ElementsAre(0, 15, 0, 0), ElementsAre(0, 15, 0, 15),
                                  ElementsAre(0, 15, 15, 15), ElementsAre(15, 15, 15, 15)));
  EXPECT_EQ(lanes.find(1, 45)->units, 45);
  EXPECT_EQ(lanes.find(0, 60)->kernels, 2);
  EXPECT_EQ(lanes.find(0, 20), nullptr);
}

TEST(Lanes, StayApartWhereThereIsRoom) {
  const hw::Topology h200 = named("H200");
  const plan::Lanes lanes = plan_lanes(h200, 8, {{32, 64}, {32}, {32}});
  hw::UnitMask all;
  for (const plan::Lane& lane : lanes.all)
    if (lane.units == 32 || lane.worker == 0) {
      EXPECT_TRUE((all & lane.mask).none() || lane.units == 64);
      all |= lane.mask;
    }
  EXPECT_EQ(all.count(), 128u);
  EXPECT_EQ(lanes.find(0, 64)->mask & lanes.find(0, 32)->mask, lanes.find(0, 32)->mask);
}

// Two workers on a GPU of eight dies: apart where there is room, each lane on all dies.
TEST(Lanes, HaveEqualSharesOfEveryDie) {
  const hw::Topology mi300x = named("MI300X");
  const plan::Lanes lanes = plan_lanes(mi300x, 1, {{8, 72, 152, 304}, {9, 72, 152}});
  ASSERT_EQ(lanes.all.size(), 7u);
  for (const plan::Lane& lane : lanes.all) {
    const auto [least, most] = std::ranges::minmax(hw::units_per_die(mi300x, lane.mask));
    EXPECT_EQ(static_cast<int>(lane.mask.count()), lane.units);
    EXPECT_GE(least, 1) << lane.units;
    EXPECT_LE(most - least, 1) << lane.units;
  }
  EXPECT_TRUE((lanes.find(0, 152)->mask & lanes.find(1, 152)->mask).none());
  EXPECT_EQ(lanes.find(1, 9)->mask & lanes.find(1, 72)->mask, lanes.find(1, 9)->mask);
}

TEST(Lanes, OfAWorkerLieInEachOther) {
  const plan::Lanes lanes =
      plan_lanes(hw::generic_topology(4, 4), 1, std::vector<std::vector<int>>(4, {4, 8, 8}));
  for (std::size_t worker = 0; worker < 4; ++worker) {
    const hw::UnitMask small = lanes.find(worker, 4)->mask;
    EXPECT_EQ(small & lanes.find(worker, 8)->mask, small) << worker;
  }
}

// The third worker's greater lane goes where the second one runs a tenth of its kernels.
TEST(Lanes, LieWhereOthersRunTheFewestKernels) {
  std::vector<int> second(10, 12);
  second[0] = 4;
  const plan::Lanes lanes = plan_lanes(hw::generic_topology(3, 4), 1, {{4}, second, {4, 8}});
  EXPECT_EQ(lanes.find(2, 8)->mask, lanes.find(2, 4)->mask | lanes.find(1, 4)->mask);
}

}  // namespace
}  // namespace partita::planners::mask
