#include "interop/placing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "interop/testing/random_geometry.h"

namespace partita::interop {
namespace {

auto key(const hw::PlacedProfile& p) { return std::pair(p.start, p.profile); }

std::vector<int> counts(const hw::GpuModel& gpu, const hw::Layout& layout) {
  std::vector<int> number(gpu.profiles.size());
  for (const hw::PlacedProfile& p : layout) ++number[static_cast<std::size_t>(p.profile)];
  return number;
}

// Every legal layout is a part of a maximal one.
struct Everything {
  std::vector<hw::Layout> maximal;
  std::set<hw::Layout> legal;

  explicit Everything(const hw::GpuModel& gpu) {
    std::vector<int> all(gpu.profiles.size());
    std::iota(all.begin(), all.end(), 0);
    maximal = hw::maximal_layouts(gpu, all);
    for (const hw::Layout& layout : maximal)
      for (unsigned part = 0; part < 1U << layout.size(); ++part) {
        hw::Layout some;
        for (std::size_t i = 0; i < layout.size(); ++i)
          if (part >> i & 1U) some.push_back(layout[i]);
        legal.insert(some);
      }
  }

  // Further instances of each profile, the largest first: what some maximal layout around has more.
  std::vector<int> room(const hw::GpuModel& gpu, const hw::Layout& layout) const {
    std::vector<int> most(gpu.profiles.size());
    const std::vector<int> have = counts(gpu, layout);
    for (const hw::Layout& around : maximal) {
      if (!std::ranges::includes(around, layout, {}, key, key)) continue;
      const std::vector<int> number = counts(gpu, around);
      for (std::size_t k = 0; k < most.size(); ++k)
        most[k] = std::max(most[k], number[k] - have[k]);
    }
    std::vector<std::size_t> order(most.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t k) {
      return std::tuple(-gpu.profiles[k].gpcs, -gpu.profiles[k].size, k);
    });
    std::vector<int> sorted;
    for (const std::size_t k : order) sorted.push_back(most[k]);
    return sorted;
  }
};

TEST(Placing, LeavesTheMostRoomOfAllLegalLayouts) {
  for (const char* name : {"A100-80GB", "A30-24GB", "H200-141GB"}) {
    const hw::GpuModel& gpu = model(name);
    const Everything all(gpu);
    std::map<std::vector<int>, std::pair<std::vector<int>, hw::Layout>> best;
    for (const hw::Layout& layout : all.legal) {
      const std::vector<int> room = all.room(gpu, layout);
      const auto [at, fresh] = best.try_emplace(counts(gpu, layout), room, layout);
      const auto before = [&] {
        return std::ranges::lexicographical_compare(layout, at->second.second, {}, key, key);
      };
      if (!fresh && (room > at->second.first || (room == at->second.first && before())))
        at->second = {room, layout};
    }
    EXPECT_GT(best.size(), 10U);
    for (const auto& [number, expected] : best) {
      const Result<hw::Layout> found = roomiest_layout(gpu, number);
      ASSERT_TRUE(found) << to_string(found.error());
      EXPECT_EQ(*found, expected.second) << name << ": " << counts_text(gpu, number);
    }
  }
}

TEST(Placing, RefusesExactlyWhatDoesNotFit) {
  const hw::GpuModel& gpu = model("A30-24GB");
  std::set<std::vector<int>> fit;
  for (const hw::Layout& layout : Everything(gpu).legal) fit.insert(counts(gpu, layout));
  std::vector<int> number(gpu.profiles.size());
  int refused = 0;
  for (int code = 0; code < 3125; ++code) {
    for (int rest = code, k = 0; k < 5; ++k, rest /= 5)
      number[static_cast<std::size_t>(k)] = rest % 5;
    const Result<hw::Layout> found = roomiest_layout(gpu, number);
    EXPECT_EQ(static_cast<bool>(found), fit.contains(number)) << counts_text(gpu, number);
    if (!found) ++refused;
    if (!found) {
      EXPECT_EQ(found.error().code, ErrorCode::bad_input);
    }
  }
  EXPECT_EQ(refused, 3125 - static_cast<int>(fit.size()));
}

TEST(Placing, HandValues) {
  const hw::GpuModel& gpu = model("A100-80GB");
  const auto layout = [&](std::vector<std::pair<const char*, int>> wanted) {
    std::vector<int> number(gpu.profiles.size());
    for (const auto& [name, count] : wanted)
      number[static_cast<std::size_t>(gpu.profile_index(name))] = count;
    return roomiest_layout(gpu, number);
  };
  // On the right a 3g leaves the left half to a 4g; at 6 a 1g leaves room for a 2g beside it too.
  EXPECT_EQ(layout({{"3g.40gb", 1}})->front().start, 4);
  EXPECT_EQ(layout({{"1g.10gb", 1}})->front().start, 6);
  EXPECT_TRUE(layout({})->empty());
  EXPECT_EQ(to_string(layout({{"3g.40gb", 2}, {"1g.10gb", 1}}).error()),
            "2 x 3g.40gb, 1 x 1g.10gb do not fit on one A100-80GB: no places leave every memory "
            "slice and media engine to one instance");
  EXPECT_EQ(to_string(layout({{"1g.10gb", 1}, {"7g.80gb", 1}}).error()),
            "1 x 7g.80gb, 1 x 1g.10gb do not fit on one A100-80GB: needs 8 compute slices, "
            "the GPU has 7");
  EXPECT_EQ(to_string(layout({{"1g.10gb+me", 2}}).error()),
            "2 x 1g.10gb+me do not fit on one A100-80GB: at most 1 x 1g.10gb+me fit");
}

}  // namespace
}  // namespace partita::interop
