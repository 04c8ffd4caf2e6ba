// What GraphBrain decides, kernel by kernel.
#include "lanes/graph_brain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace partita::exec {
namespace {

// A graph of kernels and tasks of the CPU, whose kernels always get the same units.
struct Fixed {
  TaskGraph graph;
  std::vector<hw::UnitMask> masks;
  MaskChoice choice = [this](int task, const std::vector<int>&) {
    return masks[static_cast<std::size_t>(task)];
  };

  int kernel(unsigned long units, const std::vector<int>& after) {
    masks.emplace_back(units);
    return add(LaneWork{static_cast<int>(masks.back().count()), 1, {}}, after);
  }
  int cpu(const std::vector<int>& after) {
    masks.emplace_back();
    return add(CpuWork{}, after);
  }
  GraphBrain brain(int max_lanes = 8) {
    return {graph, choice, {.units = 8, .max_lanes = max_lanes, .ahead = true}};
  }

 private:
  int add(Work work, const std::vector<int>& after) {
    const int task = graph.add("t", std::move(work));
    for (const int before : after) graph.depend(task, before);
    return task;
  }
};

// The kernels that are queued now.
std::vector<int> queued(GraphBrain& brain) {
  std::vector<int> tasks;
  while (const auto next = brain.next_kernel()) tasks.push_back(next->task);
  return tasks;
}

TEST(GraphBrain, BeginsTheLongestChainFirstThenTheFirstReady) {
  Fixed one;
  for (int i = 0; i < 2; ++i) one.kernel(1, {});
  one.kernel(2, {});
  one.kernel(4, {one.kernel(4, {2})});
  for (int i = 0; i < 2; ++i) one.cpu({});
  one.cpu({6});
  GraphBrain brain = one.brain();
  const auto first = brain.next_kernel();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->task, 2);
  EXPECT_THAT(queued(brain), testing::ElementsAre(0, 1));
  EXPECT_EQ(brain.next_cpu(), 6);
  EXPECT_EQ(brain.next_cpu(), 5);
  EXPECT_FALSE(brain.next_cpu());
}

TEST(GraphBrain, GivesAKernelALaneOnWhichNothingIsQueued) {
  Fixed one;
  for (int i = 0; i < 3; ++i) one.kernel(1, {});
  GraphBrain brain = one.brain(2);
  EXPECT_EQ(brain.next_kernel()->lane, 0);
  EXPECT_EQ(brain.next_kernel()->lane, 1);
  EXPECT_FALSE(brain.next_kernel());
  brain.ended(1);
  const auto again = brain.next_kernel();
  EXPECT_EQ(again->lane, 1);
  EXPECT_FALSE(again->fresh);
}

TEST(GraphBrain, QueuesAheadOnTheUnitsOfTheKernelBeforeAlone) {
  Fixed one;
  one.kernel(0b0011, {});
  one.kernel(0b0110, {0});  // one of them is not
  one.kernel(0b0010, {0});
  GraphBrain brain = one.brain();
  EXPECT_EQ(brain.next_kernel()->task, 0);
  const auto ahead = brain.next_kernel();
  ASSERT_TRUE(ahead);
  EXPECT_EQ(ahead->task, 2);
  EXPECT_EQ(ahead->waits, 0);
  EXPECT_FALSE(brain.next_kernel());
}

// An event behind both would hold the second one up.
TEST(GraphBrain, QueuesOnlyOneKernelBehindAnother) {
  Fixed one;
  one.kernel(1, {});
  one.kernel(1, {0});
  one.kernel(1, {0});
  GraphBrain brain = one.brain();
  EXPECT_THAT(queued(brain), testing::ElementsAre(0, 1));
  brain.ended(0);
  EXPECT_THAT(queued(brain), testing::ElementsAre(2));
  EXPECT_EQ(brain.dependencies(), (Dependencies{.skipped = 0, .on_device = 1, .on_host = 1}));
}

TEST(GraphBrain, QueuesAheadOnceTheCpuHasDoneItsPart) {
  Fixed one;
  one.kernel(1, {one.cpu({}), one.kernel(1, {})});
  GraphBrain brain = one.brain();
  EXPECT_EQ(brain.next_cpu(), 0);
  EXPECT_THAT(queued(brain), testing::ElementsAre(1));
  brain.ended(0);
  EXPECT_THAT(queued(brain), testing::ElementsAre(2));
  EXPECT_EQ(brain.dependencies(), (Dependencies{.skipped = 1, .on_device = 1, .on_host = 0}));
  brain.skipped_wait();
  EXPECT_EQ(brain.dependencies(), (Dependencies{.skipped = 2, .on_device = 0, .on_host = 0}));
}

// The first idle units. The kernel before has the last two of four; the first two are idle again,
// but not its.
TEST(GraphBrain, QueuesAheadWithAsManyUnitsAsWantedOrNotAtAll) {
  for (const int wanted : {1, 2, 3}) {
    TaskGraph graph;
    for (const int units : {2, 2, wanted}) graph.add("t", LaneWork{units, 1, {}});
    for (int i = 0; i < 2; ++i) graph.add("t", CpuWork{});
    for (const auto& [task, before] : {std::pair(2, 1), {3, 0}, {4, 3}}) graph.depend(task, before);
    const MaskChoice idle = [&](int task, const std::vector<int>& running) {
      int left = std::get<LaneWork>(graph.tasks()[static_cast<std::size_t>(task)].work).units;
      hw::UnitMask mask;
      for (std::size_t unit = 0; unit < running.size(); ++unit)
        if (running[unit] == 0 && left-- > 0) mask.set(unit);
      return mask.any() ? std::optional(mask) : std::nullopt;
    };
    GraphBrain brain(graph, idle, {.units = 4, .max_lanes = 4, .ahead = true});
    EXPECT_EQ(brain.next_kernel()->mask, hw::UnitMask(0b0011));
    EXPECT_EQ(brain.next_kernel()->mask, hw::UnitMask(0b1100));
    brain.ended(0);
    const auto ahead = brain.next_kernel();
    ASSERT_EQ(ahead.has_value(), wanted <= 2);
    if (ahead) {
      EXPECT_EQ(ahead->mask, hw::UnitMask(wanted == 1 ? 0b0100 : 0b1100));
    }
  }
}

// Kernels of a chain queued behind a first one that has not ended, and again after each end.
TEST(GraphBrain, QueuesNoMoreOnALaneThanADriverTakes) {
  TaskGraph graph;
  constexpr int kTasks = 1000;
  for (int task = 0; task < kTasks; ++task) {
    graph.add("t", LaneWork{1, 1, [](std::int64_t) {}});
    if (task > 0) graph.depend(task, task - 1);
  }
  const MaskChoice mask = [](int, const std::vector<int>&) { return hw::UnitMask(1); };
  GraphBrain brain(graph, mask, {.units = 1, .max_lanes = 1, .ahead = true});
  int queued = 0;
  for (int ended = 0; ended < kTasks; ++ended) {
    while (brain.next_kernel()) ++queued;
    ASSERT_EQ(queued, std::min(kTasks, ended + kMostQueued));
    brain.ended(ended);
  }
  EXPECT_TRUE(brain.done());
  EXPECT_EQ(brain.dependencies().on_device, kTasks - 1);
}

// Several at a time, as long as each unit has some left; on the units of the lane alone.
TEST(GraphBrain, TakesSmallKernelsBehindThoseOfALane) {
  TaskGraph graph;
  for (int task = 0; task < 12; ++task) graph.add("t", LaneWork{1, 1, {}});
  graph.add("large", LaneWork{1, 2, {}});
  graph.depend(12, 0);
  for (const unsigned long units : {1ul, 2ul}) {
    const MaskChoice idle = [units](int task, const std::vector<int>& running) {
      return running[0] > 0 ? std::nullopt : std::optional(hw::UnitMask(task == 3 ? units : 1));
    };
    GraphBrain brain(graph, idle, {.units = 2, .max_lanes = 2, .ahead = false});
    EXPECT_EQ(brain.next_kernel()->task, 0);
    EXPECT_FALSE(brain.next_kernel());  // the unit is taken
    std::vector<int> behind;
    while (const auto task = brain.next_behind(0)) behind.push_back(*task);
    if (units == 2) {  // the fourth is for another unit
      EXPECT_THAT(behind, testing::ElementsAre(1, 2));
      continue;
    }
    EXPECT_THAT(behind, testing::ElementsAre(1, 2, 3));  // four of 11 stay for each unit
    for (int task = 0; task < 4; ++task) brain.ended(task);
    EXPECT_EQ(brain.active(), 0u);
    EXPECT_EQ(brain.next_kernel()->task, 4);
    EXPECT_FALSE(brain.next_behind(0));
  }
}

// With masks that share no unit the host is never between two kernels of a chain either.
TEST(GraphBrain, KeepsOneKernelOfAChainQueuedAhead) {
  TaskGraph graph;
  for (int task = 0; task < 10; ++task) graph.add("t", LaneWork{1, 1, {}});
  for (int task = 1; task < 10; ++task) graph.depend(task, task - 1);
  const MaskChoice idle = [](int, const std::vector<int>& running) {
    return running[0] > 0 ? std::nullopt : std::optional(hw::UnitMask(1));
  };
  GraphBrain brain(graph, idle, {.units = 1, .max_lanes = 2, .ahead = true});
  for (int ended = 0; ended < 10; ++ended) {
    queued(brain);
    ASSERT_EQ(brain.active(), ended < 9 ? 2u : 1u);
    brain.ended(ended);
  }
  EXPECT_EQ(brain.dependencies().on_device, 9);
}

}  // namespace
}  // namespace partita::exec
