// Task graphs in virtual time: closed forms, bounds that no schedule can beat, the order of tasks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "lanes/graph_run.h"
#include "planners/mask/masks.h"
#include "sim/graph.h"

namespace partita {
namespace {

using plan::GraphProblem;
using plan::GraphTaskKind;

constexpr double kGbps = 10;

plan::GraphTask kernel(double work_us, int groups, int units, std::vector<int> after = {}) {
  plan::GraphTask task;
  task.name = "k";
  task.after = std::move(after);
  task.work_us = work_us;
  task.groups = groups;
  task.units = units;
  return task;
}

plan::GraphTask on_cpu(double work_us, std::vector<int> after = {}) {
  plan::GraphTask task = kernel(work_us, 1, 0, std::move(after));
  task.kind = GraphTaskKind::cpu;
  return task;
}

exec::TaskGraph graph_of(const GraphProblem& problem) {
  exec::TaskGraph graph;
  for (const plan::GraphTask& task : problem.tasks) {
    const bool lane = task.kind == GraphTaskKind::lane;
    const int number =
        graph.add(task.name, lane ? exec::Work(exec::LaneWork{task.units, task.groups, {}})
                                  : exec::Work(exec::CpuWork{}));
    for (const int before : task.after) graph.depend(number, before);
  }
  return graph;
}

struct Options {
  int threads = 1, overlap_limit = 0;
  bool ahead = true;
};

Result<exec::GraphRun> simulate(const hw::Topology& topology, const GraphProblem& problem,
                                const Options& options) {
  sim::GraphMachine machine(topology, problem, kGbps);
  const exec::VirtualTime time{
      .units = topology.units(),
      .begin = [&](int task, const hw::UnitMask& mask) { machine.begin(task, mask); },
      .next =
          [&] {
            std::vector<int> tasks = machine.next();
            return exec::Ends{machine.now_ns(), std::move(tasks)};
          }};
  const auto mask = [&](int task, const std::vector<int>& running) -> std::optional<hw::UnitMask> {
    const auto grant =
        planners::mask::allocate(topology, running,
                                 {.units = problem.tasks[static_cast<std::size_t>(task)].units,
                                  .overlap_limit = options.overlap_limit});
    return grant.granted > 0 ? std::optional(grant.mask) : std::nullopt;
  };
  return exec::simulate_graph(graph_of(problem), time, {options.threads, mask, options.ahead});
}

std::int64_t end_of(const exec::GraphRun& run) {
  std::int64_t end = 0;
  for (const exec::GraphTaskRun& task : run.tasks) end = std::max(end, task.end_ns);
  return end;
}

TEST(GraphSimulation, AChainTakesTheSumOfItsTasks) {
  GraphProblem problem;
  problem.tasks = {on_cpu(7), kernel(10, 6, 4, {0}), kernel(3, 4, 4, {1}), on_cpu(5, {2})};
  plan::GraphTask copy = on_cpu(0, {3});
  copy.kind = GraphTaskKind::copy;
  copy.bytes = 50'000;  // 5 us at 10 GB/s
  problem.tasks.push_back(copy);
  const auto run = simulate(hw::generic_topology(1, 4), problem, {});
  ASSERT_TRUE(run);
  // 6 work-groups on 4 units are two waves.
  EXPECT_EQ(end_of(*run), 1000 * (7 + 2 * 10 + 3 + 5 + 5));
  EXPECT_EQ(run->dependencies, (exec::Dependencies{0, 1, 3}));
  EXPECT_EQ(sim::graph_sequential_us(problem, kGbps), 7 + 60 + 12 + 5 + 5);
}

TEST(GraphSimulation, IndependentKernelsOnUnitsOfTheirOwnTakeAsLongAsTheLongest) {
  GraphProblem problem;
  problem.tasks = {kernel(10, 4, 2), kernel(8, 4, 1), kernel(5, 2, 1)};
  const auto run = simulate(hw::generic_topology(2, 2), problem, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(end_of(*run), 1000 * 4 * 8);
  hw::UnitMask all;
  for (const auto& task : run->tasks) {
    EXPECT_TRUE((all & task.mask).none());
    all |= task.mask;
  }
}

// Three kernels on the same two units proceed at a third of their speed until one has ended, then
// at half.
TEST(GraphSimulation, KernelsOnSharedUnitsDivideThem) {
  GraphProblem problem;
  problem.tasks = {kernel(10, 2, 2), kernel(20, 2, 2), kernel(20, 2, 2)};
  const auto run = simulate(hw::generic_topology(1, 2), problem, {.overlap_limit = 2});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->tasks[0].end_ns, 30'000);
  EXPECT_EQ(run->tasks[1].end_ns, 50'000);
  EXPECT_EQ(run->tasks[2].end_ns, 50'000);
}

TEST(GraphSimulation, NothingToGiveIsAnError) {
  GraphProblem problem;
  problem.tasks = {kernel(1, 1, 1)};
  const auto run = exec::simulate_graph(
      graph_of(problem), {.units = 1, .begin = {}, .next = {}},
      {.cpu_threads = 1, .mask = [](int, const std::vector<int>&) { return std::nullopt; }});
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message, testing::HasSubstr("no units"));
}

GraphProblem random_problem(Rng& rng, int units) {
  GraphProblem problem;
  const int tasks = 1 + static_cast<int>(rng.below(40));
  for (int t = 0; t < tasks; ++t) {
    const auto work = static_cast<double>(1 + rng.below(50));
    const int wanted = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(units)));
    plan::GraphTask task = rng.below(3) == 0
                               ? on_cpu(work)
                               : kernel(work, 1 + static_cast<int>(rng.below(20)), wanted);
    for (int before = 0; before < t; ++before)
      if (rng.below(static_cast<std::uint64_t>(t)) < 2) task.after.push_back(before);
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

// A kernel on two clusters of two units, one of which it shares: the cluster that leaves it less,
// one and a half units, holds the other one up.
TEST(GraphSimulation, TheClusterThatLeavesLeastHoldsUpTheOthers) {
  const hw::Topology topology = hw::generic_topology(2, 2);
  GraphProblem problem;
  problem.tasks = {kernel(12, 4, 4), kernel(100, 1, 1)};
  sim::GraphMachine machine(topology, problem, kGbps);
  machine.begin(0, hw::UnitMask(0b1111));
  machine.begin(1, hw::UnitMask(0b0001));
  EXPECT_THAT(machine.next(), testing::ElementsAre(0));
  EXPECT_EQ(machine.now_ns(), 16'000);
  EXPECT_THAT(machine.next(), testing::ElementsAre(1));
  EXPECT_EQ(machine.now_ns(), 16'000 + 92'000);
}

// The least time that any schedule takes on so many units: the longest path with every kernel alone
// on all units that it may have, and the work of kernels over the units.
double bound_us(const hw::Topology& topology, const plan::GraphProblem& problem, double copy_gbps) {
  // Ends of the tasks were each alone, on as many units as one kernel may have at best: all of
  // those it wants, every one effective.
  plan::GraphRun alone;
  double work = 0;
  for (const plan::GraphTask& task : problem.tasks) {
    double time = task.work_us;
    if (task.kind == plan::GraphTaskKind::copy) time = task.bytes / (copy_gbps * 1000);
    if (task.kind == plan::GraphTaskKind::lane) {
      const int units = std::min(plan::wanted_units(task, topology.units()), topology.units());
      work += task.work_us * task.groups;
      time = task.work_us * ((task.groups + units - 1) / units);
    }
    plan::GraphTaskRun& its = alone.tasks.emplace_back();
    its.end_ns = std::llround(time * 1000);
  }
  const auto path = static_cast<double>(plan::critical_path(problem, alone).ns) / 1000;
  return std::max(path, work / topology.units());
}

TEST(GraphSimulation, TheBoundIsThePathOrTheWork) {
  GraphProblem chain, wide;
  chain.tasks = {kernel(10, 1, 1), kernel(10, 1, 1, {0})};
  for (int i = 0; i < 8; ++i) wide.tasks.push_back(kernel(10, 1, 1));
  const hw::Topology topology = hw::generic_topology(1, 4);
  EXPECT_EQ(bound_us(topology, chain, kGbps), 20);
  EXPECT_EQ(bound_us(topology, wide, kGbps), 20);
}

// On one cluster, where all units of a mask count.
TEST(GraphSimulation, RandomGraphsKeepTheirOrderAndTheBounds) {
  Rng rng(3);
  for (int round = 0; round < test_rounds(300); ++round) {
    const hw::Topology topology = hw::generic_topology(1, 1 + static_cast<int>(rng.below(8)));
    const GraphProblem problem = random_problem(rng, topology.units());
    const Options options{.threads = 1 + static_cast<int>(rng.below(3)),
                          .overlap_limit = rng.below(2) == 0 ? 0 : topology.units(),
                          .ahead = rng.below(2) == 0};
    const auto run = simulate(topology, problem, options);
    ASSERT_TRUE(run);
    long edges = 0;
    for (std::size_t t = 0; t < problem.tasks.size(); ++t) {
      for (const int before : problem.tasks[t].after)
        ASSERT_GE(run->tasks[t].begin_ns, run->tasks[static_cast<std::size_t>(before)].end_ns);
      edges += static_cast<long>(problem.tasks[t].after.size());
      // Without overlap no two kernels share a unit at any time.
      for (std::size_t u = 0; u < t && options.overlap_limit == 0; ++u) {
        const auto &one = run->tasks[t], &other = run->tasks[u];
        const bool apart = one.begin_ns >= other.end_ns || other.begin_ns >= one.end_ns;
        ASSERT_TRUE(apart || (one.mask & other.mask).none());
      }
    }
    const exec::Dependencies& became = run->dependencies;
    ASSERT_EQ(became.skipped + became.on_device + became.on_host, edges);
    const auto end_us = static_cast<double>(end_of(*run)) / 1000;
    ASSERT_GE(end_us, bound_us(topology, problem, kGbps) - 1e-3);
    const auto again = simulate(topology, problem, options);
    for (std::size_t t = 0; t < problem.tasks.size(); ++t)
      ASSERT_EQ(run->tasks[t].end_ns, again->tasks[t].end_ns);
  }
}

}  // namespace
}  // namespace partita
