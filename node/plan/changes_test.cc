// The matching of GPUs against all permutations, level by level.
#include "plan/changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::plan {
namespace {

using Levels = std::array<int, 6>;

// What match_gpus makes greatest, most important first.
Levels levels(const std::vector<GpuTenancies>& wanted, const std::vector<GpuTenancies>& there,
              const std::vector<int>& order) {
  Levels sum{};
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    const GpuTenancies& gpu = there[at(order[w])];
    for (const Tenancy& one : wanted[w].tenants) {
      for (const Tenancy& other : gpu.tenants) {
        if (one.profile != other.profile || one.start != other.start) continue;
        const bool kept = one.service == other.service;
        sum[0] += kept;
        sum[1] += kept && one.batch == other.batch && one.processes == other.processes;
        sum[2] += other.held ? 8 : 1;
      }
    }
    if (!wanted[w].tenants.empty()) sum[3] -= gpu.ready ? 0 : 1;
    if (!wanted[w].tenants.empty()) sum[4] += gpu.tenants.empty() && gpu.ready;
    sum[5] += wanted[w].index == gpu.index;
  }
  return sum;
}

std::vector<GpuTenancies> random_gpus(Rng& rng, int count, bool present) {
  std::vector<GpuTenancies> gpus;
  for (int g = 0; g < count; ++g) {
    GpuTenancies& gpu = gpus.emplace_back();
    gpu.index = g + (present ? 0 : static_cast<int>(rng.below(2)));
    gpu.ready = !present || rng.below(5) != 0;
    for (int start = 0; start < 4 && gpu.ready; ++start) {
      if (rng.below(3) == 0) continue;
      gpu.tenants.push_back({rng.below(4) == 0 ? "2g" : "1g", start,
                             rng.below(2) == 0 ? "a" : "b", 1 + static_cast<int>(rng.below(2)), 1,
                             present && rng.below(3) == 0});
    }
  }
  return gpus;
}

TEST(Changes, MatchingIsTheBestOfAllPermutationsLevelByLevel) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(400); ++round) {
    const int columns = 1 + static_cast<int>(rng.below(5));
    const int rows = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(columns)));
    const auto wanted = random_gpus(rng, rows, false), there = random_gpus(rng, columns, true);
    std::vector<int> order(there.size());
    std::iota(order.begin(), order.end(), 0);
    Levels best = levels(wanted, there, order);
    while (std::next_permutation(order.begin(), order.end()))
      best = std::max(best, levels(wanted, there, order));
    Levels found = levels(wanted, there, match_gpus(wanted, there));
    // Where all that are ready are needed, which of them are empty is the same for all.
    const auto ready = std::ranges::count_if(there, &GpuTenancies::ready);
    if (ready < rows) found[4] = best[4], found[5] = best[5];
    EXPECT_EQ(found, best) << "round " << round;
  }
}

TEST(Changes, CountsByTheDefinition) {
  ServingPlan before, after;
  before.gpu_model = after.gpu_model = "A30-24GB";
  const auto one = [](int start, const char* service, int batch) {
    return PlannedInstance{"1g.6gb", start, service, batch, 1, Rps{1}, Millis{1}};
  };
  before.gpus = {{0, "", {one(0, "a", 1), one(1, "a", 1), one(2, "b", 1), one(3, "b", 1)}}};
  after.gpus = {{0, "A30-24GB", {one(0, "a", 1), one(1, "a", 2), one(2, "a", 1), one(3, "c", 1)}}};
  EXPECT_EQ(changes_between(before, after), (Changes{1, 1, 1, 1, 2}));
  EXPECT_EQ(to_string(changes_between(before, after)),
            "1 kept, 1 restarted, 1 moved, 1 created, 2 removed");
}

// GPUs of a group are one instance: pairs that stay, go elsewhere, become single GPUs.
TEST(Changes, AGroupIsOne) {
  const auto on = [](int group, const char* service) {
    PlannedInstance one{"7g.80gb", 0, service, 8, 1, Rps{1}, Millis{1}};
    one.group = group;
    return one;
  };
  ServingPlan before, after;
  before.gpu_model = after.gpu_model = "A100-80GB";
  for (int g = 0; g < 8; ++g) before.gpus.push_back({g, "", {on(g < 6 ? 2 : 1, "a")}});
  EXPECT_EQ(changes_between({}, before), (Changes{.created = 5}));
  EXPECT_EQ(changes_between(before, before), (Changes{.kept = 5}));
  // The second pair goes to 8 and 9, the third becomes single GPUs, and 6 and 7 a pair.
  for (const auto& [index, group] : std::vector<std::pair<int, int>>{
           {0, 2}, {1, 2}, {4, 1}, {5, 1}, {6, 2}, {7, 2}, {8, 2}, {9, 2}})
    after.gpus.push_back({index, "", {on(group, "a")}});
  EXPECT_EQ(changes_between(before, after), (Changes{.kept = 1, .moved = 4, .removed = 4}));
}

}  // namespace
}  // namespace partita::plan
