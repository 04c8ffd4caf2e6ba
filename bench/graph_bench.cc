// Task graphs on threads: Strassen's multiplication as a graph against the same graph one task
// after another on one thread, and what the executor costs per task. Times of a pair are taken one
// after the other, so that both meet the same load; counters are medians over pairs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <thread>

#include "base/check.h"
#include "base/median.h"
#include "drivers/cpu_mask/cpu_mask_driver.h"
#include "lanes/examples/strassen.h"
#include "lanes/graph_run.h"
#include "planners/mask/masks.h"

namespace partita::exec {
namespace {

using drivers::cpu_mask::CpuMaskDriver;

MaskChoice fair(const TaskGraph& graph, const hw::Topology& topology) {
  return [&graph, topology](int task, const std::vector<int>& running) {
    const auto& work = std::get<LaneWork>(graph.tasks()[static_cast<std::size_t>(task)].work);
    const auto grant = planners::mask::allocate(topology, running, {.units = work.units});
    return grant.granted > 0 ? std::optional(grant.mask) : std::nullopt;
  };
}

// Size, levels, units per kernel; one cluster with as many units as there are cores.
void strassen(benchmark::State& state) {
  const int size = static_cast<int>(state.range(0));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const examples::Matrix a = examples::random_matrix(size, size, 1);
  const examples::Matrix b = examples::random_matrix(size, size, 2);
  examples::Matrix c(size, size);
  const auto example = examples::strassen_winograd(
      a, b, c,
      {static_cast<int>(state.range(1)), std::min(cores, static_cast<int>(state.range(2)))});
  const hw::Topology topology = hw::generic_topology(1, cores);
  const auto driver = *CpuMaskDriver::open(topology);
  const GraphSettings settings{.cpu_threads = cores, .mask = fair(example.graph, topology)};
  RealClock clock;
  std::vector<double> ratios, times;
  for (auto _ : state) {
    const std::int64_t begin = clock.now_ns();
    CHECK(run_sequentially(example.graph, clock));
    const std::int64_t middle = clock.now_ns();
    CHECK(run_graph(example.graph, *driver, clock, settings));
    const auto time = static_cast<double>(clock.now_ns() - middle);
    ratios.push_back(static_cast<double>(middle - begin) / time);
    times.push_back(time / 1e6);
  }
  state.counters["speed_up"] = median(ratios);
  state.counters["graph_ms"] = median(times);
  state.counters["relative_error"] = examples::relative_error(a, b, c);
}
BENCHMARK(strassen)
    ->ArgsProduct({{512, 1024}, {0, 1, 2}, {1, 2}})
    ->ArgNames({"size", "levels", "units"})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Empty kernels, each after the one before or after none; ahead: 1 where the device may wait.
void overhead(benchmark::State& state) {
  constexpr int kTasks = 2'000;
  TaskGraph graph;
  for (int task = 0; task < kTasks; ++task) {
    graph.add("t", LaneWork{1, 1, [](std::int64_t) {}});
    if (state.range(0) == 1 && task > 0) graph.depend(task, task - 1);
  }
  const hw::Topology topology = hw::generic_topology(1, 2);
  const auto driver = *CpuMaskDriver::open(topology);
  const GraphSettings settings{
      .cpu_threads = 1, .mask = fair(graph, topology), .ahead = state.range(1) == 1};
  RealClock clock;
  for (auto _ : state) CHECK(run_graph(graph, *driver, clock, settings));
  state.counters["per_task"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kTasks,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(overhead)->ArgsProduct({{0, 1}, {0, 1}})->ArgNames({"chain", "ahead"})->UseRealTime();

}  // namespace
}  // namespace partita::exec
