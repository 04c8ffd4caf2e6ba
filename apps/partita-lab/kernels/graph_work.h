// Task graphs that can be run: what a graph file says as work of that size, or the example; masks
// by the graph's policies; the runs on threads and in virtual time. Where plan, exec and sim meet.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "context.h"
#include "lanes/graph_run.h"
#include "hw/topology.h"
#include "plan/graph.h"

namespace partita::cli {

// The example: matrices, their product, and what it is compared with.
struct StrassenFlags {
  int size = 1024, levels = 1;
  std::uint64_t seed = 1;
};
struct StrassenRun;

struct GraphWork {
  plan::GraphProblem problem;
  exec::TaskGraph graph;                  // as the problem's tasks
  std::shared_ptr<StrassenRun> strassen;  // none of a file
};

// Strassen-Winograd of random matrices (zeros if it is not to be run for `real`); kernels ask for
// `units` units. The problem's times are those of a unit with kUnitGflops and kUnitGbps.
inline constexpr double kUnitGflops = 20, kUnitGbps = 10;
GraphWork strassen_work(const StrassenFlags& flags, int units, bool real);
// The product's relative error, once the graph has run.
double relative_error(const StrassenRun& strassen);

struct GraphRunSettings {
  hw::Topology topology;
  std::string driver = "cpu_mask";
  int threads = 1;
  bool ahead = true;
  double copy_gbps = 10;  // of the simulator
};
// Runs the graph on the driver, or in virtual time with "sim".
Result<plan::GraphRun> run_graph(Context& context, const GraphWork& work,
                                 const GraphRunSettings& settings);
// One task after another: on the calling thread, or in virtual time.
Result<plan::GraphRun> run_sequentially(Context& context, const GraphWork& work,
                                        const GraphRunSettings& settings);

}  // namespace partita::cli
