// Plans with groups of GPUs on what runs: what stays, by hand, and after a GPU is gone.
#include "planners/serving/in_place.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::planners::serving {
namespace {

plan::PlannedGpu on(int index, const std::string& service, int group, int batch = 4) {
  plan::PlannedInstance one;
  one.profile = group > 1 ? "7g.80gb" : "3g.40gb";
  one.service = service;
  one.batch = batch;
  one.processes = 1;
  one.group = group;
  return {index, "H100-80GB-SXM5", {one}};
}

plan::ServingPlan plan_of(std::vector<plan::PlannedGpu> gpus) {
  plan::ServingPlan plan;
  plan.gpu_model = "H100-80GB-SXM5";
  plan.gpus = std::move(gpus);
  return plan;
}

std::vector<plan::FleetEntry> fleet(std::optional<int> count = {}) {
  plan::FleetEntry entry;
  entry.gpu.name = "H100-80GB-SXM5";
  entry.count = count;
  return {entry};
}

TEST(InPlace, GroupsStayWhereTheyRun) {
  const auto current = plan_of({on(0, "small", 1),
                                on(1, "large", 2),
                                on(2, "large", 2),
                                on(3, "huge", 2),
                                on(4, "huge", 2),
                                {5, "H100-80GB-SXM5", {}}});
  const auto next = plan_of({on(0, "huge", 2), on(1, "huge", 2), on(2, "large", 2),
                             on(3, "large", 2), on(4, "small", 1)});
  EXPECT_EQ(in_place_of(current, next, fleet()).gpus,
            (std::vector{on(0, "small", 1), on(1, "large", 2), on(2, "large", 2), on(3, "huge", 2),
                         on(4, "huge", 2)}));
}

// GPU 1 of the group on 0 and 1 is gone, which its caller has taken out of what runs.
TEST(InPlace, ALostGroupTakesOtherGpusAndTheWholeOneStays) {
  const plan::PlannedGpu none{0, "H100-80GB-SXM5", {}}, spare{4, "H100-80GB-SXM5", {}},
      other{5, "H100-80GB-SXM5", {}};
  const auto current = plan_of({none, on(2, "large", 2), on(3, "large", 2), spare, other});
  const auto next =
      plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "large", 2), on(3, "large", 2)});
  EXPECT_EQ(
      in_place_of(current, next, fleet()).gpus,
      (std::vector{on(2, "large", 2), on(3, "large", 2), on(4, "large", 2), on(5, "large", 2)}));
}

// Nothing may lie between the GPUs of a group: rather all begin anew.
TEST(InPlace, WhereThereIsNoRoomInARowAllMove) {
  const plan::PlannedGpu none{0, "H100-80GB-SXM5", {}}, spare{4, "H100-80GB-SXM5", {}};
  const auto current = plan_of({none, on(2, "large", 2), on(3, "large", 2), spare});
  const auto next =
      plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "large", 2), on(3, "large", 2)});
  EXPECT_EQ(
      in_place_of(current, next, fleet(4)).gpus,
      (std::vector{on(0, "large", 2), on(2, "large", 2), on(3, "large", 2), on(4, "large", 2)}));
}

// A group of four in the middle of six, where it pushes least aside, leaves no two side by side.
TEST(InPlace, GroupsCloseUpWhereTheyFindRoomInNoOtherWay) {
  std::vector<plan::PlannedGpu> runs{on(0, "small", 1)}, wanted;
  for (int g = 1; g < 5; ++g) runs.push_back(on(g, "large", 4)), wanted.push_back(runs.back());
  runs.push_back(on(5, "other", 1));
  wanted.push_back(on(6, "pair", 2)), wanted.push_back(on(7, "pair", 2));
  const auto placed = in_place_of(plan_of(runs), plan_of(wanted), fleet(6)).gpus;
  std::vector<plan::PlannedGpu> together;
  for (int g = 0; g < 6; ++g) together.push_back(on(g, g < 4 ? "large" : "pair", g < 4 ? 4 : 2));
  EXPECT_EQ(placed, together);
}

// Whatever runs where: groups that fit find places, on GPUs that there are.
TEST(InPlace, WhatFitsHasPlaces) {
  Rng rng(11);
  const std::string names[] = {"a", "b", "c"};
  for (int round = 0; round < test_rounds(3000); ++round) {
    const int gpus = 2 + static_cast<int>(rng.below(6)), gap = static_cast<int>(rng.below(9));
    const auto number = [&](int g) { return g < gap ? g : g + 1; };
    const auto some = [&](bool in_order) {
      std::vector<plan::PlannedGpu> all;
      for (int left = gpus; left > 0;) {
        int size = 1 << rng.below(3);
        while (size > left) size /= 2;
        const std::string& name = names[rng.below(3)];
        for (int k = 0; k < size; ++k, --left) {
          const int g = gpus - left;
          all.push_back(on(in_order ? number(g) : g, name + std::to_string(size), size));
        }
      }
      return all;
    };
    const auto runs = some(true);
    const auto wanted = some(false);
    const auto placed = in_place_of(plan_of(runs), plan_of(wanted), fleet(gpus)).gpus;
    ASSERT_EQ(placed.size(), wanted.size());
    for (int g = 0; g < gpus; ++g) ASSERT_EQ(placed[at(g)].index, number(g)) << round;
    for (int g = 0; g < gpus;) {  // whole groups, one behind the other
      const plan::PlannedInstance& first = placed[at(g)].instances.front();
      for (const int end = g + first.group; g < end; ++g)
        ASSERT_EQ(placed[at(g)].instances.front().service, first.service) << round;
    }
  }
}

TEST(InPlace, MoreGpusThanThereAreGetNewNumbers) {
  const auto current = plan_of({on(3, "small", 1)});
  const auto next = plan_of({on(0, "large", 2), on(1, "large", 2), on(2, "small", 1)});
  EXPECT_EQ(in_place_of(current, next, fleet()).gpus,
            (std::vector{on(0, "large", 2), on(1, "large", 2), on(3, "small", 1)}));
}

// Two groups of 4 and a GPU alone run; four more groups come. None crosses from node to node of 8.
TEST(InPlace, NoGroupLiesInTwoNodes) {
  std::vector<plan::PlannedGpu> runs, wanted;
  for (int g = 0; g < 8; ++g) runs.push_back(on(g, "large", 4));
  runs.push_back(on(8, "small", 1));
  for (int g = 0; g < 24; ++g) wanted.push_back(on(g, "large", 4));
  wanted.push_back(on(24, "small", 1));
  const auto placed = in_place_of(plan_of(runs), plan_of(wanted), fleet()).gpus;
  ASSERT_EQ(placed.size(), 25u);
  EXPECT_EQ(std::vector(placed.begin(), placed.begin() + 9), runs);  // all stay
  for (std::size_t g = 9; g < 25; g += 4) EXPECT_EQ(placed[g].index / 8, placed[g + 3].index / 8);
  // Of 25 GPUs there is room for six groups only where the one alone makes way.
  EXPECT_EQ(in_place_of(plan_of(runs), plan_of(wanted), fleet(25)).gpus, wanted);
}

}  // namespace
}  // namespace partita::planners::serving
