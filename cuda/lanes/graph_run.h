// Running a task graph: the fourth of DAGEE's steps. On real threads and lanes, in virtual time, or
// one task after another; what begins when on which units is GraphBrain's decision in the first
// two.
// A run owns its threads and lanes, and ends when all tasks have. What runs on a GPU is found by
// the events behind it, which the calling thread looks at without sleeping; a task is taken to
// begin when it was queued and what it waits for, also on its lane, was seen to have ended.
// Thread rule: driver and mask choice are called by one thread at a time, by the calling one alone
// where the driver is not open to work-groups.
#pragma once

#include <functional>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/lane_driver.h"
#include "lanes/graph_brain.h"
#include "lanes/task_graph.h"

namespace partita::exec {

struct GraphSettings {
  int cpu_threads = 1;  // for CpuWork; at least one
  MaskChoice mask;
  bool ahead = true;  // kernels may be queued before those that they wait for have ended
};

struct GraphTaskRun {
  std::int64_t begin_ns = 0, end_ns = 0;  // of the task, or its first and last work-group
  hw::UnitMask mask;                      // of a kernel
  int lane = -1;                          // of a kernel
  int thread = -1;                        // of a task of the CPU
};

struct GraphRun {
  std::vector<GraphTaskRun> tasks;
  Dependencies dependencies;
  int lanes = 0;  // that there were at the same time
};

// Runs every task once, after those before it have ended. A task that the driver refuses, or that
// gets no units though nothing runs, ends the run with an error, after what was running has ended;
// tasks behind it never run. Where a GPU is lost, the error names the kernels that were on it.
Result<GraphRun> run_graph(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
                           const GraphSettings& settings);

// Runs every task on the calling thread, one after another in order(); kernels on a lane of all
// units where there is a GPU.
Result<GraphRun> run_sequentially(const TaskGraph& graph, Clock& clock,
                                  device::LaneDriver* gpu = nullptr);

// Tasks that end next, at the same time.
struct Ends {
  std::int64_t time_ns = 0;
  std::vector<int> tasks;
};
// What carries out tasks in virtual time.
struct VirtualTime {
  int units = 1;                                                  // there are
  std::function<void(int task, const hw::UnitMask& mask)> begin;  // now; no units: on the CPU
  std::function<Ends()> next;  // moves on to the next end; something runs
};
inline constexpr int kVirtualLanes = 256;
// As run_graph, in virtual time: callables are not called. At most kVirtualLanes lanes.
Result<GraphRun> simulate_graph(const TaskGraph& graph, const VirtualTime& machine,
                                const GraphSettings& settings);

}  // namespace partita::exec
