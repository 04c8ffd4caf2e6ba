// Task graphs: reading them, whether they fit a GPU and a machine, the masks that their policies
// give, and what one task after another would take. Pure but for Files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "hw/topology.h"
#include "plan/graph.h"

namespace partita::decide {

Result<plan::GraphProblem> load_graph(Files& files, const std::string& path);

// What is copied for real comes to at most 2e9 bytes; the refusal names the task's line.
Result<void> check_copies(const std::string& file, const plan::GraphProblem& problem);

// The units that kernels ask for fit the topology; the refusal names the task's line.
Result<void> check_units(const std::string& file, const plan::GraphProblem& problem,
                         const hw::Topology& topology);

// In virtual time every kernel says how long its work takes; the refusal names the task's line.
Result<void> check_work(const std::string& file, const plan::GraphProblem& problem);

// The units of a kernel by its policy or the graph's, in the GPU's atoms, given how many kernels
// run on each unit; none where nothing is granted. Refers to both arguments.
std::function<std::optional<hw::UnitMask>(int task, const std::vector<int>& running)> graph_masks(
    const plan::GraphProblem& problem, const hw::Topology& topology);

// Virtual time is counted in nanoseconds, also that of all tasks together: refused beyond it.
Result<void> check_virtual_time(const plan::GraphProblem& problem, double copy_gbps);

// When each task runs in virtual time, one after another in `order`, kernels on one unit.
std::vector<plan::GraphTaskRun> one_after_another(const plan::GraphProblem& problem,
                                                  const std::vector<int>& order, double copy_gbps);

}  // namespace partita::decide
