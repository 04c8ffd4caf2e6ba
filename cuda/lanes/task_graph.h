// TaskGraph: tasks with dependencies, on threads of the CPU or on lanes of a GPU, the first three
// of DAGEE's four steps (Chow 2022, chapter 2): tasks are registered, nodes and edges are added;
// graph_run.h is the fourth. A copy is a task of the CPU. The graph is a value and may be run
// several times.
// Limits: kMaxGraphTasks tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "device/lane_driver.h"

namespace partita::exec {

inline constexpr std::size_t kMaxGraphTasks = 100'000;

// Runs once on a thread of the CPU. Like work-groups it must not throw.
struct CpuWork {
  std::function<void()> run;
};
// Queues work on a lane of a driver's.
using OnLane = std::function<Result<void>(device::LaneDriver& driver, int lane)>;
// What the kernel is on a GPU; `behind` is queued once it has ended, and the run's end waits for
// it. Both may do again what was refused for want of room (`limit`).
struct GpuWork {
  OnLane queue, behind = {};
};
// Runs as a kernel on a lane of so many units.
struct LaneWork {
  int units = 1;
  std::int64_t groups = 1;
  std::function<void(std::int64_t group)> run;  // on threads
  std::shared_ptr<const GpuWork> gpu = {};
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

}  // namespace partita::exec
