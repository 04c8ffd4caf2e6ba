#include "hw/layout.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "hw/catalogue.h"

namespace partita::hw {
namespace {

const GpuModel& model(const std::string& name) { return **builtin_catalogue().get(name); }

PlacedProfile at(const GpuModel& gpu, const std::string& profile, int start) {
  return {gpu.profile_index(profile), start};
}

std::vector<std::string> constraints(const GpuModel& gpu, const std::vector<PlacedProfile>& set) {
  std::vector<std::string> names;
  for (const Conflict& conflict : conflicts(gpu, set)) names.push_back(conflict.constraint);
  return names;
}

std::set<std::vector<int>> multisets(const std::vector<Layout>& layouts) {
  std::set<std::vector<int>> sets;
  for (const Layout& layout : layouts) {
    std::vector<int> profiles;
    for (const PlacedProfile& p : layout) profiles.push_back(p.profile);
    std::ranges::sort(profiles);
    sets.insert(profiles);
  }
  return sets;
}

std::vector<PlacedProfile> all_placements(const GpuModel& gpu, const std::vector<int>& profiles) {
  std::vector<PlacedProfile> all;
  for (const int k : profiles)
    for (const int start : gpu.profiles[static_cast<std::size_t>(k)].starts)
      all.push_back({k, start});
  return all;
}

std::vector<int> with(std::vector<int> profiles, const GpuModel& gpu, const std::string& name) {
  profiles.push_back(gpu.profile_index(name));
  return profiles;
}

TEST(MaximalLayouts, A100PlainDoubleMemoryAndMedia) {
  const GpuModel& gpu = model("A100-80GB");
  const std::vector<int> plain = plain_profiles(gpu);
  ASSERT_EQ(plain.size(), 5u);
  const auto nineteen = maximal_layouts(gpu, plain);
  EXPECT_EQ(nineteen.size(), 19u);
  EXPECT_EQ(multisets(nineteen).size(), 14u);

  const std::vector<int> six = with(plain, gpu, "1g.20gb");
  EXPECT_EQ(maximal_layouts(gpu, six).size(), 78u);
  EXPECT_EQ(multisets(maximal_layouts(gpu, six)).size(), 38u);

  const std::vector<int> seven = with(six, gpu, "1g.10gb+me");
  EXPECT_EQ(maximal_layouts(gpu, seven).size(), 239u);
  EXPECT_EQ(multisets(maximal_layouts(gpu, seven)).size(), 64u);
}

TEST(MaximalLayouts, HandCountsOfTheOtherShapes) {
  // A30: 4g | 2g2g | 2g 1g1g | 1g1g 2g | 1g1g1g1g; the RTX PRO 6000 has the same tree.
  for (const char* name : {"A30-24GB", "RTX-PRO-6000-96GB"}) {
    const auto layouts = maximal_layouts(model(name), plain_profiles(model(name)));
    EXPECT_EQ(layouts.size(), 5u) << name;
    EXPECT_EQ(multisets(layouts).size(), 4u) << name;
  }
  const GpuModel& h200 = model("H200-141GB");
  EXPECT_EQ(maximal_layouts(h200, plain_profiles(h200)).size(), 19u);
}

TEST(MaximalLayouts, AreSortedAndRepeatedProfilesChangeNothing) {
  const GpuModel& gpu = model("A100-40GB");
  const auto layouts = maximal_layouts(gpu, plain_profiles(gpu));
  const auto key = [](const Layout& layout) {
    std::vector<std::pair<int, int>> starts;
    for (const PlacedProfile& p : layout) starts.emplace_back(p.start, p.profile);
    return starts;
  };
  for (const Layout& layout : layouts) EXPECT_TRUE(std::ranges::is_sorted(key(layout)));
  EXPECT_TRUE(std::ranges::is_sorted(layouts, {}, key));
  std::vector<int> twice = plain_profiles(gpu);
  twice.insert(twice.end(), twice.begin(), twice.begin() + 5);
  EXPECT_EQ(maximal_layouts(gpu, twice), layouts);
}

// The judge (conflicts) and the enumeration are written apart; over every subset of the placements
// they must agree.
TEST(MaximalLayouts, AgreeWithBruteForceOverAllSubsets) {
  const GpuModel& gpu = model("A100-80GB");
  const auto placements = all_placements(gpu, plain_profiles(gpu));
  ASSERT_EQ(placements.size(), 14u);
  std::vector<bool> legal(1u << placements.size());
  for (std::size_t bits = 0; bits < legal.size(); ++bits) {
    std::vector<PlacedProfile> set;
    for (std::size_t i = 0; i < placements.size(); ++i)
      if (bits >> i & 1) set.push_back(placements[i]);
    legal[bits] = conflicts(gpu, set).empty();
  }
  EXPECT_EQ(std::ranges::count(legal, true), 298);  // 297 and the empty one
  std::set<Layout> maximal;
  for (std::size_t bits = 0; bits < legal.size(); ++bits) {
    bool extendable = false;
    for (std::size_t i = 0; i < placements.size(); ++i)
      extendable |= !(bits >> i & 1) && legal[bits | (1u << i)];
    if (!legal[bits] || extendable) continue;
    Layout layout;
    for (std::size_t i = 0; i < placements.size(); ++i)
      if (bits >> i & 1) layout.push_back(placements[i]);
    std::ranges::sort(layout, {}, [](const auto& p) { return std::pair(p.start, p.profile); });
    maximal.insert(layout);
  }
  const auto found = maximal_layouts(gpu, plain_profiles(gpu));
  EXPECT_EQ(std::set<Layout>(found.begin(), found.end()), maximal);
}

TEST(MaximalLayouts, EveryLayoutOfEveryModelIsLegalAndFull) {
  for (const GpuModel& gpu : builtin_catalogue().gpus) {
    std::vector<int> all;
    for (int k = 0; k < static_cast<int>(gpu.profiles.size()); ++k) all.push_back(k);
    const auto layouts = maximal_layouts(gpu, all);
    EXPECT_FALSE(layouts.empty()) << gpu.name;
    for (std::size_t i = 0; i < layouts.size(); i += 1 + layouts.size() / 50) {
      EXPECT_TRUE(conflicts(gpu, layouts[i]).empty()) << gpu.name;
      for (const PlacedProfile& more : all_placements(gpu, all)) {
        Layout bigger = layouts[i];
        bigger.push_back(more);
        EXPECT_FALSE(conflicts(gpu, bigger).empty()) << gpu.name;
      }
    }
  }
}

TEST(Conflicts, TwoTimes3gFillsTheMemory) {
  const GpuModel& gpu = model("A100-80GB");
  const std::vector<PlacedProfile> both = {at(gpu, "3g.40gb", 0), at(gpu, "3g.40gb", 4)};
  EXPECT_TRUE(conflicts(gpu, both).empty());
  for (int start = 0; start < 7; ++start) {
    auto three = both;
    three.push_back(at(gpu, "1g.10gb", start));
    EXPECT_EQ(conflicts(gpu, three),
              (std::vector<Conflict>{{"memory_slices", start < 4 ? 0 : 1, 2, 0, 1}}));
  }
}

TEST(Conflicts, IllegalStartsNameTheNearestLegalOne) {
  const GpuModel& gpu = model("A100-80GB");
  for (const int legal : {0, 2, 4})
    EXPECT_TRUE(conflicts(gpu, {at(gpu, "2g.20gb", legal)}).empty());
  EXPECT_EQ(conflicts(gpu, {at(gpu, "2g.20gb", 5)}),
            (std::vector<Conflict>{{"illegal_start", 0, -1, 5, 4}}));
  EXPECT_EQ(conflicts(gpu, {at(gpu, "1g.10gb", 7)}),
            (std::vector<Conflict>{{"illegal_start", 0, -1, 7, 6}}));
  EXPECT_EQ(conflicts(gpu, {at(gpu, "3g.40gb", -2147483647 - 1)})[0].need, 0);
}

TEST(Conflicts, UnknownProfiles) {
  const GpuModel& gpu = model("A100-80GB");
  EXPECT_EQ(conflicts(gpu, {{-1, 0}}), (std::vector<Conflict>{{"unknown_profile", 0, -1, 7, -1}}));
  EXPECT_EQ(conflicts(gpu, {at(gpu, "7g.80gb", 0), {7, 0}}),
            (std::vector<Conflict>{{"unknown_profile", 1, -1, 7, 7}}));
}

TEST(Conflicts, ComputeSlicesAndInstanceCountsAreLimitsOfTheirOwn) {
  GpuModel gpu = model("A100-80GB");
  gpu.profiles[static_cast<std::size_t>(gpu.profile_index("3g.40gb"))].max_instances = 1;
  EXPECT_EQ(conflicts(gpu, {at(gpu, "3g.40gb", 0), at(gpu, "3g.40gb", 4)}),
            (std::vector<Conflict>{{"max_instances", 1, -1, 1, 2}}));
  gpu = model("A100-80GB");
  gpu.compute_slices = 6;
  EXPECT_EQ(conflicts(gpu, {at(gpu, "4g.40gb", 0), at(gpu, "3g.40gb", 4)}),
            (std::vector<Conflict>{{"compute_slices", -1, -1, 6, 7}}));
}

TEST(Conflicts, MediaExtensionExistsOncePerGpu) {
  const GpuModel& a100 = model("A100-80GB");
  EXPECT_EQ(constraints(a100, {at(a100, "1g.10gb+me", 0), at(a100, "1g.10gb+me", 1)}).front(),
            "max_instances");
  // Two different +me profiles share the one JPEG and the one optical-flow engine of an A30.
  const GpuModel& a30 = model("A30-24GB");
  EXPECT_EQ(constraints(a30, {at(a30, "1g.6gb+me", 0), at(a30, "2g.12gb+me", 2)}),
            (std::vector<std::string>{"media_engines", "media_engines"}));
  EXPECT_TRUE(conflicts(a30, {at(a30, "1g.6gb+me", 0), at(a30, "2g.12gb", 2)}).empty());
}

TEST(Conflicts, AllMediaEnginesLeaveRoomForInstancesWithoutOnly) {
  const GpuModel& gpu = model("RTX-PRO-6000-96GB");
  const PlacedProfile all = at(gpu, "1g.24gb+me.all", 0);
  EXPECT_TRUE(conflicts(gpu, {all, at(gpu, "1g.24gb-me", 3), at(gpu, "2g.48gb-me", 6)}).empty());
  for (const char* other : {"1g.24gb", "1g.24gb+me", "1g.24gb+gfx"})
    EXPECT_EQ(constraints(gpu, {all, at(gpu, other, 3)}).front(), "media_engines") << other;
  EXPECT_EQ(constraints(gpu, {all, at(gpu, "2g.48gb+me.all", 6)}).front(), "media_engines");
}

RC_GTEST_PROP(Conflicts, PilingUpKeepsTheListLinear, (const std::vector<unsigned>& draws)) {
  const GpuModel& gpu = model("A100-80GB");
  std::vector<PlacedProfile> pile;
  for (const unsigned draw : draws)
    pile.push_back({static_cast<int>(draw % 9) - 1, static_cast<int>(draw / 9 % 11) - 1});
  RC_ASSERT(conflicts(gpu, pile).size() <= 8 * pile.size());
}

}  // namespace
}  // namespace partita::hw
