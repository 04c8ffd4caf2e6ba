// Task graphs on real threads: every task once, after those before it, on its mask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "exec/task_graph.h"
#include "planners/mask/masks.h"

namespace partita::exec {
namespace {

using drivers::cpu_mask::CpuMaskDriver;

GraphSettings settings_on(const hw::Topology& topology, int threads) {
  return {threads, [topology](const LaneWork& work, const std::vector<int>& running) {
            return planners::mask::allocate(
                       topology, running,
                       {work.units, planners::mask::Policy::fair, topology.units()})
                .mask;
          }};
}

// What a task saw: stamps of its begin and end, work-groups, units that ran them.
struct Seen {
  std::atomic<long> begin{0}, end{0};
  std::atomic<int> groups{0};
  std::atomic<std::uint64_t> units{0};
};

struct RandomGraph {
  TaskGraph graph;
  std::vector<std::unique_ptr<Seen>> seen;
  std::atomic<long> stamp{0};
};

void add_task(RandomGraph& random, Rng& rng, int units) {
  Seen* seen = random.seen.emplace_back(std::make_unique<Seen>()).get();
  std::atomic<long>* stamp = &random.stamp;
  const auto note = [seen, stamp] {
    long none = 0;
    seen->begin.compare_exchange_strong(none, ++*stamp);
    ++seen->groups;
    if (const int unit = drivers::cpu_mask::this_unit(); unit >= 0)
      seen->units |= std::uint64_t{1} << unit;
    seen->end = ++*stamp;
  };
  const std::string name = "t" + std::to_string(random.seen.size() - 1);
  if (rng.below(3) == 0) {
    random.graph.add(name, CpuWork{note});
    return;
  }
  const int wanted = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(units)));
  const auto groups = static_cast<std::int64_t>(1 + rng.below(20));
  random.graph.add(name, LaneWork{wanted, groups, [note](std::int64_t) { note(); }});
}

TEST(TaskGraphs, RunEveryTaskOnceAfterThoseBeforeIt) {
  Rng rng(1);
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(2, 4);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  for (int round = 0; round < test_rounds(60); ++round) {
    RandomGraph random;
    const int tasks = 1 + static_cast<int>(rng.below(40));
    for (int t = 0; t < tasks; ++t) {
      add_task(random, rng, topology.units());
      for (int edges = t == 0 ? 0 : static_cast<int>(rng.below(4)); edges > 0; --edges)
        random.graph.depend(t, static_cast<int>(rng.below(static_cast<std::uint64_t>(t))));
    }
    const auto run = run_graph(random.graph, **driver, clock, settings_on(topology, 2));
    ASSERT_TRUE(run) << to_string(run.error());
    for (int t = 0; t < tasks; ++t) {
      const auto i = static_cast<std::size_t>(t);
      const GraphTask& task = random.graph.tasks()[i];
      const auto* lane = std::get_if<LaneWork>(&task.work);
      ASSERT_EQ(random.seen[i]->groups, lane ? lane->groups : 1);
      for (const int before : task.after)
        ASSERT_GT(random.seen[i]->begin, random.seen[static_cast<std::size_t>(before)]->end);
      const hw::UnitMask used(random.seen[i]->units.load());
      ASSERT_EQ(used & ~run->tasks[i].mask, hw::UnitMask{});
      ASSERT_EQ(run->tasks[i].mask.count(), lane ? static_cast<std::size_t>(lane->units) : 0u);
      ASSERT_LE(run->tasks[i].begin_ns, run->tasks[i].end_ns);
    }
  }
  EXPECT_EQ((*driver)->outside(), 0);
}

TEST(TaskGraphs, NameTheTasksOfACycle) {
  TaskGraph graph;
  for (const char* name : {"load", "a", "b", "c"}) graph.add(name, CpuWork{[] {}});
  graph.depend(1, 0);
  graph.depend(2, 1);
  graph.depend(3, 2);
  EXPECT_THAT(*graph.order(), testing::ElementsAre(0, 1, 2, 3));
  graph.depend(1, 3);
  const auto order = graph.order();
  ASSERT_FALSE(order);
  EXPECT_THAT(order.error().message, testing::HasSubstr("a -> b -> c -> a"));
}

TEST(TaskGraphs, EndWithTheDriversErrorAndRunNothingBehindIt) {
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(1, 2);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  std::atomic<int> ran{0};
  TaskGraph graph;
  graph.add("first", LaneWork{1, 4, [&](std::int64_t) { ++ran; }});
  graph.add("too much", LaneWork{1, 5, [&](std::int64_t) { ++ran; }});
  graph.add("behind", CpuWork{[&] { ++ran; }});
  graph.depend(1, 0);
  graph.depend(2, 1);
  GraphSettings settings = settings_on(topology, 1);
  settings.mask = [](const LaneWork& work, const std::vector<int>&) {
    return work.groups == 4 ? hw::UnitMask(1) : hw::UnitMask{};
  };
  const auto run = run_graph(graph, **driver, clock, settings);
  ASSERT_FALSE(run);
  EXPECT_THAT(to_string(run.error()), testing::HasSubstr("too much"));
  EXPECT_EQ(ran, 4);
}

}  // namespace
}  // namespace partita::exec
