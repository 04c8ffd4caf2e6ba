// The order of CU masks: hand values, and against the kernel driver's own way from a mask to the
// CUs that it enables (fake/kfd_mask.h).
#include "drivers/hip_mask/cu_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "drivers/hip_mask/testing/kfd_mask.h"

namespace partita::drivers::hip_mask {
namespace {

using testing::ElementsAre;

hw::UnitMask units(std::initializer_list<std::pair<int, int>> ranges) {
  hw::UnitMask mask;
  for (const auto& [first, count] : ranges)
    for (int i = 0; i < count; ++i) mask.set(static_cast<std::size_t>(first + i));
  return mask;
}

hw::UnitMask random_mask(Rng& rng, std::size_t units, int step) {
  hw::UnitMask mask;
  const auto pairs = static_cast<std::size_t>(step);
  for (std::size_t unit = 0; unit < units; unit += pairs)
    if (rng.below(2) == 0)
      for (std::size_t i = 0; i < pairs; ++i) mask.set(unit + i);
  return mask;
}

// ---- hand values ----

// 19 units of an MI50, as each policy of mask planning takes them: the words of the documentation.
TEST(CuOrder, NineteenUnitsOfAnMI50) {
  const auto bits = *bits_of_units(layout_of(*hw::topology_named("MI50"), false, 1));
  // Packed: all of SE 0, four of SE 1.
  EXPECT_THAT(cu_words(bits, units({{0, 15}, {15, 4}})), ElementsAre(0x11113333, 0x01111111));
  // Distributed: 5, 5, 5 and 4.
  EXPECT_THAT(cu_words(bits, units({{0, 5}, {15, 5}, {30, 5}, {45, 4}})),
              ElementsAre(0x0007FFFF, 0));
  // Conserved: 10 of SE 0, 9 of SE 1.
  EXPECT_THAT(cu_words(bits, units({{0, 10}, {15, 9}})), ElementsAre(0x33333333, 0x00000013));
}

TEST(CuOrder, TheDriversOwnExamples) {
  // 1 array per engine, 4 engines: bits 0-3 are CU 0 of each engine, bit 4 is CU 1 of the first.
  const auto one = *places_of_bits({.engines = 4, .active = {15, 15, 15, 15}});
  EXPECT_EQ(one[1], (CuPlace{0, 1, 0, 0}));
  EXPECT_EQ(one[4], (CuPlace{0, 0, 0, 1}));
  // 2 arrays: bit 4 is CU 0 of the first engine's second array, bit 8 CU 1 of its first.
  const auto two = *places_of_bits({.engines = 4, .arrays = 2, .active = std::vector<int>(8, 8)});
  EXPECT_EQ(two[4], (CuPlace{0, 0, 1, 0}));
  EXPECT_EQ(two[5], (CuPlace{0, 1, 1, 0}));
  EXPECT_EQ(two[8], (CuPlace{0, 0, 0, 1}));
  // n XCCs: bit n - 1 is the last one's first CU, bit n + 1 the second engine of XCC 1.
  const auto six = *places_of_bits({.xccs = 6, .engines = 4, .active = std::vector<int>(24, 10)});
  EXPECT_EQ(six[5], (CuPlace{5, 0, 0, 0}));
  EXPECT_EQ(six[6], (CuPlace{0, 1, 0, 0}));
  EXPECT_EQ(six[7], (CuPlace{1, 1, 0, 0}));
  // Pairs: bits 0 and 1 are one, bits 2 and 3 that of the next engine.
  const auto pairs = *places_of_bits({.engines = 2, .step = 2, .active = {4, 4}});
  EXPECT_THAT(pairs, ElementsAre(CuPlace{0, 0, 0, 0}, CuPlace{0, 0, 0, 1}, CuPlace{0, 1, 0, 0},
                                 CuPlace{0, 1, 0, 1}, CuPlace{0, 0, 0, 2}, CuPlace{0, 0, 0, 3},
                                 CuPlace{0, 1, 0, 2}, CuPlace{0, 1, 0, 3}));
}

TEST(CuOrder, EnginesWithFewerCusArePassedOver) {
  // Engine 1 has one CU, engine 0 three: bits E0 E1 E0 E0.
  const CuLayout layout{.engines = 2, .active = {3, 1}};
  EXPECT_THAT(*places_of_bits(layout), ElementsAre(CuPlace{0, 0, 0, 0}, CuPlace{0, 1, 0, 0},
                                                   CuPlace{0, 0, 0, 1}, CuPlace{0, 0, 0, 2}));
  EXPECT_THAT(*bits_of_units(layout), ElementsAre(0, 2, 3, 1));
}

TEST(CuOrder, WhatCannotBeAskedForIsRefused) {
  const auto dies = places_of_bits({.xccs = 2, .active = {4, 3}});
  ASSERT_FALSE(dies);
  EXPECT_EQ(dies.error().code, ErrorCode::not_supported);
  const auto half = bits_of_units({.engines = 2, .step = 2, .active = {4, 3}});
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, ErrorCode::not_supported);
}

// ---- against the kernel driver's algorithm ----

// Every mask of units enables its CUs and no other: the n-th unit of a cluster is always the same
// CU, all of the cluster's CUs are some unit, and masks come back as they were.
void agrees(const CuLayout& layout, Rng& rng) {
  const auto bits = bits_of_units(layout);
  const auto places = places_of_bits(layout);
  ASSERT_TRUE(bits && places);
  const fake::Arrays gpu{.xccs = layout.xccs,
                         .engines = layout.engines,
                         .arrays = layout.arrays,
                         .pairs = layout.step == 2,
                         .active = layout.active};
  ASSERT_EQ(bits->size(), static_cast<std::size_t>(
                              std::accumulate(layout.active.begin(), layout.active.end(), 0)));
  int cluster = 0;
  for (const int bit : *bits) {  // clusters ascend
    const CuPlace& place = (*places)[static_cast<std::size_t>(bit)];
    ASSERT_GE(layout.xccs > 1 ? place.xcc : place.engine, cluster);
    cluster = layout.xccs > 1 ? place.xcc : place.engine;
  }
  for (int round = 0; round < 4; ++round) {
    const hw::UnitMask mask = random_mask(rng, bits->size(), layout.step);
    std::set<std::tuple<int, int, int, int>> wanted;
    const auto unmasked = [&](int xcc) {  // a die without any unit
      if (layout.xccs == 1) return false;
      for (std::size_t unit = 0; unit < bits->size(); ++unit)
        if (mask[unit] && (*places)[static_cast<std::size_t>((*bits)[unit])].xcc == xcc)
          return false;
      return true;
    };
    for (std::size_t unit = 0; unit < bits->size(); ++unit) {
      const CuPlace& place = (*places)[static_cast<std::size_t>((*bits)[unit])];
      if (mask[unit] || unmasked(place.xcc))
        wanted.emplace(place.xcc, place.engine, place.array, place.cu);
    }
    const auto words = cu_words(*bits, mask);
    ASSERT_EQ(fake::enabled(gpu, words), wanted);
  }
}

TEST(CuOrder, AgreesWithTheKernelDriverOnShippedTopologies) {
  Rng rng(1);
  int checked = 0;
  for (const hw::Topology& topology : hw::builtin_topologies()) {
    if (topology.unit_name != "CU") continue;
    agrees(layout_of(topology, topology.cluster_name == "XCD", 1), rng);
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

TEST(CuOrder, AgreesWithTheKernelDriverOnRandomOnes) {
  Rng rng(2);
  for (int round = 0; round < test_rounds(300); ++round) {
    SCOPED_TRACE(round);
    CuLayout layout{.xccs = rng.below(2) == 0 ? 1 : static_cast<int>(1 + rng.below(8)),
                    .engines = static_cast<int>(1 + rng.below(8)),
                    .arrays = static_cast<int>(1 + rng.below(2)),
                    .step = static_cast<int>(1 + rng.below(2)),
                    .active = {}};
    std::vector<int> one(static_cast<std::size_t>(layout.engines * layout.arrays));
    for (int& active : one) active = layout.step * static_cast<int>(rng.below(9));
    one[0] = layout.step;  // at least one CU
    // Other dies have the same CUs in another order.
    for (int xcc = 0; xcc < layout.xccs; ++xcc) {
      layout.active.insert(layout.active.end(), one.begin(), one.end());
      std::ranges::rotate(one, one.begin() + static_cast<int>(rng.below(one.size())));
    }
    if (std::accumulate(layout.active.begin(), layout.active.end(), 0) > hw::kMaxUnits) continue;
    agrees(layout, rng);
    if (HasFatalFailure()) return;
  }
}

// As was measured: one CU of the first die, and all 38 of each of the seven others.
TEST(CuOrder, ADieWithoutUnitsRunsUnmasked) {
  const auto layout = layout_of(*hw::topology_named("MI300X"), true, 1);
  const fake::Arrays gpu{
      .xccs = 8, .engines = 1, .arrays = 1, .pairs = false, .active = layout.active};
  EXPECT_EQ(fake::enabled(gpu, {1}).size(), 267u);
  EXPECT_EQ(fake::enabled(gpu, {0xFF}).size(), 8u);
}

// ---- where a wave runs ----

TEST(CuSites, RegistersAreRead) {
  // CU 11, array 1, engine 2; everything around set.
  EXPECT_EQ(site_of(SiteForm::gfx9, 0xFFFF80FF | 11 << 8 | 1 << 12 | 2 << 13, 0xFFFFFFFF),
            (CuPlace{0, 2, 1, 11}));
  // Engine 6 has three bits; XCC 5.
  EXPECT_EQ(site_of(SiteForm::gfx9_wide, 0xFFFF00FF | 3 << 8 | 6u << 13, 0xFFFFFFF5),
            (CuPlace{5, 6, 0, 3}));
  // WGP 4, array 1, engine 2 of two and three bits.
  EXPECT_EQ(site_of(SiteForm::gfx10, 0xFFF2C3FF | 4 << 10 | 1 << 16 | 2 << 18, 7),
            (CuPlace{0, 2, 1, 4}));
  EXPECT_EQ(site_of(SiteForm::gfx11, 0xFFE2C3FF | 4 << 10 | 1 << 16 | 6 << 18, 7),
            (CuPlace{0, 6, 1, 4}));
}

TEST(CuSites, AreRankedAmongThoseInUse) {
  // Two engines of three CUs each, of which the die has four: engine 0 lacks CU 1, engine 1 CU 3.
  const std::set<CuPlace> sites{{0, 0, 0, 0}, {0, 0, 0, 2}, {0, 0, 0, 3},
                                {0, 1, 0, 0}, {0, 1, 0, 1}, {0, 1, 0, 2}};
  const auto bits = *bits_of_units({.engines = 2, .active = {3, 3}});
  const auto found = units_of_sites(sites, 1, bits);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->at({0, 0, 0, 0}), 0);
  EXPECT_EQ(found->at({0, 0, 0, 2}), 1);
  EXPECT_EQ(found->at({0, 0, 0, 3}), 2);
  EXPECT_EQ(found->at({0, 1, 0, 2}), 5);
  const auto fewer = units_of_sites({{0, 0, 0, 0}}, 1, bits);
  ASSERT_FALSE(fewer);
  EXPECT_EQ(fewer.error().message, "work ran on 1 CUs of 6");
}

}  // namespace
}  // namespace partita::drivers::hip_mask
