#include "kernels/graph_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/terminal.h"
#include "lanes/graph_work.h"
#include "decide/graph.h"
#include "lanes/examples/strassen.h"
#include "kernels/lane_drivers.h"
#include "sim/graph.h"

namespace partita::cli {

struct StrassenRun {
  examples::Matrix a, b, c;
};

using plan::GraphTask;
using plan::GraphTaskKind;

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
  work.problem.name =
      fmt::format("Strassen-Winograd {0} x {0}, {1}", size, count_text(flags.levels, "level"));
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

Result<plan::GraphRun> run_graph(Context& context, const GraphWork& work,
                                 const GraphRunSettings& settings) {
  const exec::GraphSettings how{
      settings.threads, decide::graph_masks(work.problem, settings.topology), settings.ahead};
  if (settings.driver != "sim") {
    LaneDriverFlags flags;
    flags.driver = settings.driver;
    flags.gpu = settings.topology.name;
    const OpenLaneDriver lanes = TRY(open_lane_driver(flags));
    const auto run = TRY(exec::run_graph(work.graph, *lanes.driver, context.clock, how));
    return carry::told(run, settings.driver, settings.topology, settings.threads);
  }
  TRY(decide::check_virtual_time(work.problem, settings.copy_gbps));
  sim::GraphMachine machine(settings.topology, work.problem, settings.copy_gbps);
  const exec::VirtualTime time{
      .units = settings.topology.units(),
      .begin = [&](int task, const hw::UnitMask& mask) { machine.begin(task, mask); },
      .next =
          [&] {
            std::vector<int> tasks = machine.next();
            return exec::Ends{machine.now_ns(), std::move(tasks)};
          }};
  const auto run = TRY(exec::simulate_graph(work.graph, time, how));
  return carry::told(run, settings.driver, settings.topology, settings.threads);
}

Result<plan::GraphRun> run_sequentially(Context& context, const GraphWork& work,
                                        const GraphRunSettings& settings) {
  if (settings.driver != "sim") {
    const auto run = TRY(exec::run_sequentially(work.graph, context.clock));
    return carry::told(run, "sequential", settings.topology, settings.threads);
  }
  TRY(decide::check_virtual_time(work.problem, settings.copy_gbps));
  const auto order = TRY(work.graph.order());
  plan::GraphRun out = carry::told({}, "sequential", settings.topology, settings.threads);
  out.tasks = decide::one_after_another(work.problem, order, settings.copy_gbps);
  return out;
}

}  // namespace partita::cli
