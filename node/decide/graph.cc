#include "decide/graph.h"

#include <fmt/format.h>

#include <cmath>

#include "base/index.h"
#include "decide/input.h"
#include "decide/kernel_inputs.h"
#include "forms/graph_forms.h"
#include "planners/mask/lanes.h"
#include "planners/mask/masks.h"
#include "sim/graph.h"

namespace partita::decide {

using plan::GraphTask;

Result<plan::GraphProblem> load_graph(Files& files, const std::string& path) {
  return read_input(files, "FILE", path, forms::parse_graph, mask_policy_words());
}

Result<void> check_copies(const std::string& file, const plan::GraphProblem& problem) {
  constexpr double kMaxCopied = 2e9;
  double copied = 0;
  for (const plan::GraphTask& task : problem.tasks) {
    copied += task.bytes;
    if (copied > kMaxCopied)
      return bad_input(
          fmt::format("{}:{}", file, task.line),
          fmt::format("copies of more than {:g} bytes in all with task '{}'; that many "
                      "can be simulated only (--driver sim)",
                      kMaxCopied, task.name));
  }
  return {};
}

Result<void> check_units(const std::string& file, const plan::GraphProblem& problem,
                         const hw::Topology& topology) {
  for (const plan::GraphTask& task : problem.tasks) {
    if (task.kind != plan::GraphTaskKind::lane || task.units <= topology.units()) continue;
    return bad_input(task.line > 0 ? fmt::format("{}:{}", file, task.line) : "--units",
                     fmt::format("task '{}' asks for {} units, but {} has {} (--gpu)", task.name,
                                 task.units, topology.name, topology.units()));
  }
  return {};
}

Result<void> check_work(const std::string& file, const plan::GraphProblem& problem) {
  for (const plan::GraphTask& task : problem.tasks)
    if (task.code && task.work_us <= 0)
      return bad_input(fmt::format("{}:{}", file, task.line),
                       fmt::format("--driver sim does not run kernel '{}': task '{}' has to say "
                                   "how long its work-groups take (work_us)",
                                   task.code->kernel, task.name));
  return {};
}

std::function<std::optional<hw::UnitMask>(int task, const std::vector<int>& running)> graph_masks(
    const plan::GraphProblem& problem, const hw::Topology& topology) {
  return [&problem, &topology](int number, const std::vector<int>& running) {
    const GraphTask& task = problem.tasks[at(number)];
    const std::string& policy = task.policy.empty() ? problem.policy : task.policy;
    const planners::mask::Request request{plan::wanted_units(task, topology.units()),
                                          *planners::mask::policy_named(policy),
                                          task.overlap_limit.value_or(problem.overlap_limit)};
    const auto grant =
        planners::mask::allocate_atoms(topology, topology.atoms.front(), running, request);
    return grant.granted > 0 ? std::optional(grant.mask) : std::nullopt;
  };
}

Result<void> check_virtual_time(const plan::GraphProblem& problem, double copy_gbps) {
  constexpr double kMostUs = 1e13;
  const double us = sim::graph_sequential_us(problem, copy_gbps);
  if (us <= kMostUs) return {};
  return bad_input("--driver sim", fmt::format("the tasks take {:.3g} us one after another; {:g} "
                                               "can be simulated",
                                               us, kMostUs));
}

std::vector<plan::GraphTaskRun> one_after_another(const plan::GraphProblem& problem,
                                                  const std::vector<int>& order, double copy_gbps) {
  std::vector<plan::GraphTaskRun> runs(order.size());
  double now = 0;
  for (const int task : order) {
    plan::GraphTaskRun& its = runs[at(task)];
    its.thread = 0;
    its.begin_ns = std::llround(now);
    now += 1000 *
           sim::graph_sequential_us({.name = "", .tasks = {problem.tasks[at(task)]}}, copy_gbps);
    its.end_ns = std::llround(now);
  }
  return runs;
}

}  // namespace partita::decide
