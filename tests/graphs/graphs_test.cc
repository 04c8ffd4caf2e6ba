// Task graphs on real threads: every task once, after those before it, on its mask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "lanes/graph_run.h"
#include "planners/mask/masks.h"

namespace partita::exec {
namespace {

using drivers::cpu_mask::CpuMaskDriver;

// Masks by the fair policy; so many of the units may run other kernels already.
GraphSettings settings_on(const TaskGraph& graph, const hw::Topology& topology, int overlap_limit) {
  const auto mask = [&graph, topology, overlap_limit](
                        int task, const std::vector<int>& running) -> std::optional<hw::UnitMask> {
    const int units = std::get<LaneWork>(graph.tasks()[static_cast<std::size_t>(task)].work).units;
    const planners::mask::Request request{units, planners::mask::Policy::fair, overlap_limit};
    const auto grant = planners::mask::allocate(topology, running, request);
    if (grant.granted == 0) return std::nullopt;
    return grant.mask;
  };
  return {.cpu_threads = 2, .mask = mask};
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

// Passes everything on.
class Through : public device::LaneDriver {
 public:
  explicit Through(LaneDriver& inner) : inner_(inner) {}
  Result<device::LaneDriverInfo> info() override { return inner_.info(); }
  Result<int> create_lane(const hw::UnitMask& mask) override { return inner_.create_lane(mask); }
  Result<void> destroy_lane(int lane) override { return inner_.destroy_lane(lane); }
  Result<device::LaneState> query(int lane) override { return inner_.query(lane); }
  Result<void> launch(int lane, device::Kernel kernel) override {
    return inner_.launch(lane, std::move(kernel));
  }
  Result<void> synchronise(int lane) override { return inner_.synchronise(lane); }
  Result<int> record_event(int lane) override { return inner_.record_event(lane); }
  Result<bool> wait_event(int lane, int event) override { return inner_.wait_event(lane, event); }
  Result<bool> event_finished(int event) override { return inner_.event_finished(event); }
  Result<void> destroy_event(int event) override { return inner_.destroy_event(event); }

 protected:
  LaneDriver& inner_;
};

// A driver of few lanes, open to work-groups or not; those keep to what they may call.
class FewLanes final : public Through {
 public:
  FewLanes(LaneDriver& inner, int lanes, bool open) : Through(inner), lanes_(lanes), open_(open) {}
  Result<device::LaneDriverInfo> info() override {
    auto info = inner_.info();
    info->max_lanes = lanes_;
    return info;
  }
  bool open_to_groups() const override { return open_; }
  Result<void> launch(int lane, device::Kernel kernel) override {
    EXPECT_TRUE(open_ || drivers::cpu_mask::this_unit() < 0);
    return inner_.launch(lane, std::move(kernel));
  }
  Result<void> synchronise(int lane) override {
    EXPECT_LT(drivers::cpu_mask::this_unit(), 0);
    return inner_.synchronise(lane);
  }
  Result<void> destroy_lane(int lane) override {
    EXPECT_LT(drivers::cpu_mask::this_unit(), 0);
    made_anew = true;
    return inner_.destroy_lane(lane);
  }
  bool made_anew = false;

 private:
  const int lanes_;
  const bool open_;
};

RandomGraph& fill(RandomGraph& random, Rng& rng, int units) {
  const int tasks = 1 + static_cast<int>(rng.below(40));
  for (int t = 0; t < tasks; ++t) {
    add_task(random, rng, units);
    for (int edges = t == 0 ? 0 : static_cast<int>(rng.below(4)); edges > 0; --edges)
      random.graph.depend(t, static_cast<int>(rng.below(static_cast<std::uint64_t>(t))));
  }
  return random;
}

void check(const RandomGraph& random, const GraphRun& run) {
  long edges = 0;
  for (std::size_t i = 0; i < random.seen.size(); ++i) {
    const GraphTask& task = random.graph.tasks()[i];
    const Seen& seen = *random.seen[i];
    const auto* lane = std::get_if<LaneWork>(&task.work);
    ASSERT_EQ(seen.groups, lane ? lane->groups : 1);
    for (const int before : task.after)
      ASSERT_GT(seen.begin, random.seen[static_cast<std::size_t>(before)]->end);
    for (const int before : task.after)
      ASSERT_GE(run.tasks[i].begin_ns, run.tasks[static_cast<std::size_t>(before)].end_ns);
    edges += static_cast<long>(task.after.size());
    ASSERT_EQ(hw::UnitMask(seen.units.load()) & ~run.tasks[i].mask, hw::UnitMask{});
    ASSERT_LE(run.tasks[i].mask.count(), lane ? static_cast<std::size_t>(lane->units) : 0u);
    ASSERT_EQ(run.tasks[i].mask.any(), lane != nullptr);
    ASSERT_LE(run.tasks[i].begin_ns, run.tasks[i].end_ns);
  }
  const Dependencies& became = run.dependencies;
  ASSERT_EQ(became.skipped + became.on_device + became.on_host, edges);
}

TEST(TaskGraphs, RunEveryTaskOnceAfterThoseBeforeIt) {
  Rng rng(1);
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(2, 4);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  bool made_anew = false;
  for (int round = 0; round < test_rounds(60); ++round) {
    RandomGraph random;
    GraphSettings settings = settings_on(fill(random, rng, topology.units()).graph, topology,
                                         rng.below(2) == 0 ? 0 : topology.units());
    settings.ahead = rng.below(3) > 0;
    FewLanes few(**driver, 1 + static_cast<int>(rng.below(4)), rng.below(2) == 0);
    device::LaneDriver& which =
        rng.below(2) == 0 ? few : static_cast<device::LaneDriver&>(**driver);
    const auto run = run_graph(random.graph, which, clock, settings);
    ASSERT_TRUE(run) << to_string(run.error());
    ASSERT_NO_FATAL_FAILURE(check(random, *run)) << round;
    ASSERT_TRUE(settings.ahead || run->dependencies.on_device == 0);
    made_anew |= few.made_anew;
  }
  EXPECT_TRUE(made_anew);
  EXPECT_EQ((*driver)->outside(), 0);
}

// Kernels that take less than queueing them: units run several, one after another.
TEST(TaskGraphs, RunManySmallKernels) {
  Rng rng(2);
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(1, 2);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  for (int round = 0; round < test_rounds(20); ++round) {
    RandomGraph random;
    const int tasks = 100 + static_cast<int>(rng.below(400));
    for (int t = 0; t < tasks; ++t) {
      Seen* seen = random.seen.emplace_back(std::make_unique<Seen>()).get();
      const auto note = [seen, &random](std::int64_t) {
        long none = 0;
        seen->begin.compare_exchange_strong(none, ++random.stamp);
        ++seen->groups;
        seen->units |= std::uint64_t{1} << drivers::cpu_mask::this_unit();
        seen->end = ++random.stamp;
      };
      const int units = rng.below(8) == 0 ? 2 : 1;
      random.graph.add("t" + std::to_string(t), LaneWork{units, rng.below(8) == 0 ? 2 : 1, note});
      if (t > 20 && rng.below(3) == 0)
        random.graph.depend(t, t - 1 - static_cast<int>(rng.below(20)));
    }
    GraphSettings settings = settings_on(random.graph, topology, rng.below(3) == 0 ? 2 : 0);
    settings.ahead = rng.below(2) == 0;
    const auto run = run_graph(random.graph, **driver, clock, settings);
    ASSERT_TRUE(run) << to_string(run.error());
    ASSERT_NO_FATAL_FAILURE(check(random, *run)) << round;
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
  GraphSettings settings = settings_on(graph, topology, 2);
  settings.mask = [](int task, const std::vector<int>&) {
    return task == 0 ? hw::UnitMask(1) : hw::UnitMask{};
  };
  const auto run = run_graph(graph, **driver, clock, settings);
  ASSERT_FALSE(run);
  EXPECT_THAT(to_string(run.error()), testing::HasSubstr("too much"));
  EXPECT_EQ(ran, 4);
}

// The first kernel ends only once the last one is decided on, which is after the two between them
// were queued: without waits on the device this would never end.
TEST(TaskGraphs, AreQueuedBehindWhatStillRuns) {
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(1, 2);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  const std::int64_t patience_ns = 20'000'000'000;
  const std::int64_t begin = clock.now_ns();
  std::atomic<bool> open{false};
  std::array<std::atomic<bool>, 4> ended{};
  std::atomic<int> early{0};
  const auto kernel = [&](std::size_t task, std::size_t before) {
    return [&, task, before](std::int64_t) {
      early += !ended[before];
      ended[task] = true;
    };
  };
  TaskGraph graph;
  graph.add("first", LaneWork{2, 1, [&](std::int64_t) {
                                while (!open && clock.now_ns() < begin + patience_ns)
                                  std::this_thread::yield();
                                ended[0] = true;
                              }});
  graph.add("left", LaneWork{1, 1, kernel(1, 0)});
  graph.add("right", LaneWork{1, 1, kernel(2, 0)});
  graph.add("last", LaneWork{1, 1, kernel(3, 1)});
  graph.depend(1, 0);
  graph.depend(2, 0);
  graph.depend(3, 1);
  GraphSettings settings{.cpu_threads = 1, .mask = {}};
  settings.mask = [&](int task, const std::vector<int>&) {
    if (task == 3) open = true;
    return hw::UnitMask(task == 0 ? 3 : task == 2 ? 2 : 1);
  };
  const auto run = run_graph(graph, **driver, clock, settings);
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_LT(clock.now_ns(), begin + patience_ns);
  EXPECT_EQ(early, 0);
  // Events for the two on other lanes, the order of the lane for the last.
  EXPECT_EQ(run->dependencies, (Dependencies{.skipped = 0, .on_device = 3, .on_host = 0}));
  EXPECT_EQ(run->lanes, 3);
  const auto event = (*driver)->event_finished(1);
  ASSERT_FALSE(event);
  EXPECT_EQ(event.error().code, ErrorCode::not_found);
}

// A driver that runs every kernel, and then says that it is lost.
class TooLate final : public Through {
 public:
  using Through::Through;
  Result<void> launch(int lane, device::Kernel kernel) override {
    EXPECT_TRUE(inner_.launch(lane, std::move(kernel)));
    EXPECT_TRUE(inner_.synchronise(lane));
    return failed({ErrorCode::lost, "too late", "launch"});
  }
};

TEST(TaskGraphs, EndAfterAKernelWhoseLaunchFailedTooLate) {
  RealClock clock;
  const hw::Topology topology = hw::generic_topology(1, 2);
  const auto driver = CpuMaskDriver::open(topology);
  ASSERT_TRUE(driver);
  TooLate late(**driver);
  std::atomic<int> ran{0};
  TaskGraph graph;
  graph.add("kernel", LaneWork{1, 5, [&](std::int64_t) { ++ran; }});
  graph.add("behind", LaneWork{1, 1, [&](std::int64_t) { ++ran; }});
  graph.depend(1, 0);
  const auto run = run_graph(graph, late, clock, settings_on(graph, topology, 0));
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code, ErrorCode::lost);
  EXPECT_EQ(ran, 5);
}

TEST(TaskGraphs, RunOneAfterAnotherOnThisThread) {
  ManualClock clock;
  std::vector<std::int64_t> ran;
  TaskGraph graph;
  graph.add("last", CpuWork{[&] {
              ran.push_back(-1);
              clock.now += 10;
            }});
  graph.add("first", LaneWork{2, 3, [&](std::int64_t group) {
                                ran.push_back(group);
                                ++clock.now;
                              }});
  graph.depend(0, 1);
  const auto run = run_sequentially(graph, clock);
  ASSERT_TRUE(run);
  EXPECT_THAT(ran, testing::ElementsAre(0, 1, 2, -1));
  EXPECT_EQ(run->tasks[0].begin_ns, run->tasks[1].end_ns);
  EXPECT_EQ(run->tasks[1].end_ns - run->tasks[1].begin_ns, 3);
  EXPECT_EQ(run->tasks[0].end_ns - run->tasks[0].begin_ns, 10);
}

TEST(TaskGraphs, EndWhereNothingRunsAndAKernelGetsNoUnits) {
  RealClock clock;
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 1));
  ASSERT_TRUE(driver);
  std::atomic<int> ran{0};
  TaskGraph graph;
  graph.add("first", CpuWork{[&] { ++ran; }});
  graph.add("never", LaneWork{1, 1, [&](std::int64_t) { ++ran; }});
  const auto run = run_graph(
      graph, **driver, clock,
      {.cpu_threads = 1, .mask = [](int, const std::vector<int>&) { return std::nullopt; }});
  ASSERT_FALSE(run);
  EXPECT_THAT(to_string(run.error()), testing::HasSubstr("no units"));
  EXPECT_EQ(ran, 1);
}

// More masks than there may be lanes.
TEST(TaskGraphs, MakeLanesAnewWhereThereMayBeNoMore) {
  RealClock clock;
  TaskGraph graph;
  std::vector<hw::UnitMask> masks;
  for (int task = 0; task < 300; ++task) {
    graph.add("t", LaneWork{1, 1, [](std::int64_t) {}});
    masks.emplace_back(1 + static_cast<unsigned long>(task));
  }
  const auto driver = CpuMaskDriver::open(hw::generic_topology(1, 9));
  ASSERT_TRUE(driver);
  const auto mask = [&](int task, const std::vector<int>&) {
    return masks[static_cast<std::size_t>(task)];
  };
  const auto run = run_graph(graph, **driver, clock, {.cpu_threads = 1, .mask = mask});
  ASSERT_TRUE(run) << to_string(run.error());
  EXPECT_LE(run->lanes, drivers::cpu_mask::kMaxLanes);
  EXPECT_EQ((*driver)->outside(), 0);
  EXPECT_TRUE((*driver)->create_lane(hw::UnitMask(1)));
}

}  // namespace
}  // namespace partita::exec
