#include "kernels/graph_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "examples/strassen.h"
#include "kernels/lane_drivers.h"
#include "planners/mask/lanes.h"
#include "sim/graph.h"

namespace partita::cli {

struct StrassenRun {
  examples::Matrix a, b, c;
};

namespace {

using plan::GraphTask;
using plan::GraphTaskKind;

void compute(std::int64_t rounds) {
  std::uint64_t value = 1;
  for (std::int64_t i = 0; i < rounds; ++i)
    value = value * 6364136223846793005u + 1442695040888963407u;
  asm volatile("" : : "r"(value));  // the compiler must believe that somebody reads it
}

// Rounds that a core alone computes in a microsecond: the most of several tries.
double rounds_per_us(Clock& clock) {
  constexpr std::int64_t kRounds = 400'000;
  constexpr int kTries = 5;
  double most = 1;
  for (int i = 0; i < kTries; ++i) {
    const std::int64_t begin = clock.now_ns();
    compute(kRounds);
    const auto us = static_cast<double>(clock.now_ns() - begin) / 1000;
    if (us > 0) most = std::max(most, static_cast<double>(kRounds) / us);
  }
  return most;
}

std::function<void()> copying(double bytes) {
  const auto count = static_cast<std::size_t>(bytes);
  const auto from = std::make_shared<std::vector<char>>(count, 'x');
  const auto to = std::make_shared<std::vector<char>>(count);
  return [from, to] { std::memcpy(to->data(), from->data(), from->size()); };
}

exec::Work work_of(const GraphTask& task, int units, double rounds_per_us) {
  const auto rounds = static_cast<std::int64_t>(task.work_us * rounds_per_us);
  const bool runs = rounds_per_us > 0;
  if (task.kind == GraphTaskKind::lane) {
    exec::LaneWork kernel{plan::wanted_units(task, units), task.groups, {}};
    if (runs) kernel.run = [rounds](std::int64_t) { compute(rounds); };
    return kernel;
  }
  if (!runs) return exec::CpuWork{};
  if (task.kind == GraphTaskKind::copy) return exec::CpuWork{copying(task.bytes)};
  return exec::CpuWork{[rounds] { compute(rounds); }};
}

// The units of a kernel by its policy or the graph's, in the GPU's atoms.
exec::MaskChoice mask_choice(const plan::GraphProblem& problem, const hw::Topology& topology) {
  return [&problem, &topology](int number, const std::vector<int>& running) {
    const GraphTask& task = problem.tasks[static_cast<std::size_t>(number)];
    const std::string& policy = task.policy.empty() ? problem.policy : task.policy;
    const planners::mask::Request request{plan::wanted_units(task, topology.units()),
                                          *planners::mask::policy_named(policy),
                                          task.overlap_limit.value_or(problem.overlap_limit)};
    const auto grant =
        planners::mask::allocate_atoms(topology, topology.atoms.front(), running, request);
    return grant.granted > 0 ? std::optional(grant.mask) : std::nullopt;
  };
}

plan::GraphRun told(const exec::GraphRun& run, const GraphRunSettings& settings,
                    std::string driver) {
  plan::GraphRun out;
  out.driver = std::move(driver);
  out.topology = settings.topology;
  out.threads = settings.threads;
  out.waits = {run.dependencies.skipped, run.dependencies.on_device, run.dependencies.on_host};
  out.lanes = run.lanes;
  for (const exec::GraphTaskRun& task : run.tasks)
    out.tasks.push_back({task.begin_ns, task.end_ns, task.mask, task.lane, task.thread});
  return out;
}

// Virtual time is counted in nanoseconds, also that of all tasks together.
Result<void> check_time(const plan::GraphProblem& problem, double copy_gbps) {
  constexpr double kMostUs = 1e13;
  const double us = sim::graph_sequential_us(problem, copy_gbps);
  if (us <= kMostUs) return {};
  return bad_input("--driver sim", fmt::format("the tasks take {:.3g} us one after another; {:g} "
                                               "can be simulated",
                                               us, kMostUs));
}

}  // namespace

GraphWork strassen_work(const StrassenFlags& flags, int units, bool real) {
  const int size = flags.size;
  const auto matrix = [&](std::uint64_t seed) {
    return real ? examples::random_matrix(size, size, seed) : examples::Matrix(size, size);
  };
  GraphWork work;
  work.strassen = std::make_shared<StrassenRun>(
      StrassenRun{matrix(flags.seed), matrix(flags.seed + 1), {size, size}});
  auto example = examples::strassen_winograd(work.strassen->a, work.strassen->b, work.strassen->c,
                                             {flags.levels, units});
  work.problem.name = fmt::format("Strassen-Winograd {0} x {0}, {1} level{2}", size, flags.levels,
                                  flags.levels == 1 ? "" : "s");
  for (std::size_t i = 0; i < example.costs.size(); ++i) {
    const exec::GraphTask& its = example.graph.tasks()[i];
    const examples::Cost& cost = example.costs[i];
    GraphTask& task = work.problem.tasks.emplace_back();
    task.name = its.name;
    task.after = its.after;
    if (const auto* kernel = std::get_if<exec::LaneWork>(&its.work)) {
      task.units = units;
      task.groups = static_cast<int>(kernel->groups);
      task.work_us = std::max(cost.flops / (1e3 * kUnitGflops), cost.bytes / (1e3 * kUnitGbps));
    } else {
      task.kind = GraphTaskKind::copy;
      task.bytes = std::max(1.0, cost.bytes);
    }
  }
  work.graph = std::move(example.graph);
  return work;
}

double relative_error(const StrassenRun& strassen) {
  return examples::relative_error(strassen.a, strassen.b, strassen.c);
}

exec::TaskGraph graph_of(const plan::GraphProblem& problem, const hw::Topology& topology,
                         Clock* clock) {
  const double speed = clock != nullptr ? rounds_per_us(*clock) : 0;
  exec::TaskGraph graph;
  for (const GraphTask& task : problem.tasks)
    graph.add(task.name, work_of(task, topology.units(), speed));
  for (std::size_t task = 0; task < problem.tasks.size(); ++task)
    for (const int before : problem.tasks[task].after) graph.depend(static_cast<int>(task), before);
  return graph;
}

Result<plan::GraphRun> run_graph(Context& context, const GraphWork& work,
                                 const GraphRunSettings& settings) {
  const exec::GraphSettings how{settings.threads, mask_choice(work.problem, settings.topology),
                                settings.ahead};
  if (settings.driver != "sim") {
    LaneDriverFlags flags;
    flags.driver = settings.driver;
    flags.gpu = settings.topology.name;
    const Result<OpenLaneDriver> lanes = open_lane_driver(flags);
    if (!lanes) return failed(lanes.error());
    const auto run = exec::run_graph(work.graph, *lanes->driver, context.clock, how);
    if (!run) return failed(run.error());
    return told(*run, settings, settings.driver);
  }
  if (auto few = check_time(work.problem, settings.copy_gbps); !few) return failed(few.error());
  sim::GraphMachine machine(settings.topology, work.problem, settings.copy_gbps);
  const exec::VirtualTime time{
      .units = settings.topology.units(),
      .begin = [&](int task, const hw::UnitMask& mask) { machine.begin(task, mask); },
      .next =
          [&] {
            std::vector<int> tasks = machine.next();
            return exec::Ends{machine.now_ns(), std::move(tasks)};
          }};
  const auto run = exec::simulate_graph(work.graph, time, how);
  if (!run) return failed(run.error());
  return told(*run, settings, settings.driver);
}

Result<plan::GraphRun> run_sequentially(Context& context, const GraphWork& work,
                                        const GraphRunSettings& settings) {
  if (settings.driver != "sim") {
    const auto run = exec::run_sequentially(work.graph, context.clock);
    if (!run) return failed(run.error());
    return told(*run, settings, "sequential");
  }
  if (auto few = check_time(work.problem, settings.copy_gbps); !few) return failed(few.error());
  // Kernels of one unit, each after the task before it.
  plan::GraphRun out = told({}, settings, "sequential");
  const auto order = work.graph.order();
  if (!order) return failed(order.error());
  out.tasks.resize(order->size());
  double now = 0;
  for (const int task : *order) {
    plan::GraphTaskRun& its = out.tasks[static_cast<std::size_t>(task)];
    its.thread = 0;
    its.begin_ns = std::llround(now);
    now += 1000 * sim::graph_sequential_us(
                      {.name = "", .tasks = {work.problem.tasks[static_cast<std::size_t>(task)]}},
                      settings.copy_gbps);
    its.end_ns = std::llround(now);
  }
  return out;
}

}  // namespace partita::cli
