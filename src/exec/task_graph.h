// TaskGraph: tasks with dependencies, on threads of the CPU or on lanes of a GPU, and their
// execution: DAGEE's four steps (Chow 2022, chapter 2) -- executors are given, tasks are
// registered, nodes and edges are added, the graph is run. A copy is a task of the CPU. The graph
// is a value and may be run several times; a run owns its threads and lanes and ends when all tasks
// have.
// Limits: kMaxGraphTasks tasks.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "device/lane_driver.h"

namespace partita::exec {

inline constexpr std::size_t kMaxGraphTasks = 100'000;

// Runs once on a thread of the CPU. Like work-groups it must not throw.
struct CpuWork {
  std::function<void()> run;
};
// Runs as a kernel on a lane of so many units.
struct LaneWork {
  int units = 1;
  std::int64_t groups = 1;
  std::function<void(std::int64_t group)> run;
};
using Work = std::variant<CpuWork, LaneWork>;

struct GraphTask {
  std::string name;
  Work work;
  std::vector<int> after = {};  // tasks that must have ended
};

class TaskGraph {
 public:
  // Adds a task; its number. A task without a callable is refused when the graph is run.
  int add(std::string name, Work work);
  // `task` begins after `before` has ended. Both are numbers of this graph.
  void depend(int task, int before);
  const std::vector<GraphTask>& tasks() const { return tasks_; }
  // The tasks in an order that their dependencies allow, of several the one with the least numbers
  // first; bad_input that names the tasks of a cycle.
  Result<std::vector<int>> order() const;

 private:
  std::vector<GraphTask> tasks_;
};

// The units of a task, given how many running kernels use each unit.
using MaskChoice =
    std::function<hw::UnitMask(const LaneWork& work, const std::vector<int>& running)>;

struct GraphSettings {
  int cpu_threads = 1;  // for CpuWork; at least one
  MaskChoice mask;
};

struct GraphTaskRun {
  std::int64_t begin_ns = 0, end_ns = 0;  // by the clock; launched to finished
  hw::UnitMask mask;                      // of a task on a lane
};

struct GraphRun {
  std::vector<GraphTaskRun> tasks;
  int lanes = 0;  // that were made: one per mask and kernels on it at the same time
};

// Runs every task once, as soon as those before it have ended. A task that the driver refuses ends
// the run with the driver's error, after what was running has ended; tasks behind it never run.
Result<GraphRun> run_graph(const TaskGraph& graph, device::LaneDriver& driver, Clock& clock,
                           const GraphSettings& settings);

}  // namespace partita::exec
