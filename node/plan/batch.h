// The vocabulary of batches: BatchProblem (moldable tasks, GPUs) and BatchSchedule (which task runs
// on which instance when, and which instances are created and destroyed in between). Both are
// values; forms are in batch_forms.h. Times are integer nanoseconds from the start of the batch.
// Limits: kMaxTasks tasks, kMaxBatchGpus GPUs, kMaxTaskTime per time, release and deadline; all
// times of a batch together stay below kMaxBatchTime, so that sums never overflow.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "hw/gpu_model.h"
#include "hw/layout.h"
#include "plan/dispatcher.h"
#include "plan/reason.h"

namespace partita::plan {

inline constexpr int kMaxTasks = 100'000;
inline constexpr int kMaxBatchGpus = 1'000;
inline constexpr int kGpusPerNode = 8;
inline constexpr Nanos kNanosInSecond = 1'000'000'000;
inline constexpr Nanos kMaxTaskTime = 10'000'000 * kNanosInSecond;    // 116 days
inline constexpr Nanos kMaxBatchTime = 500'000'000 * kNanosInSecond;  // 16 years

// Seconds as nanoseconds, rounded to the nearest; and back.
Nanos nanos(Seconds time);
Seconds seconds(Nanos time);

// How long a task runs on an instance of so many compute slices; 0 where it does not fit.
struct SizeTimes {
  std::array<Nanos, hw::kMaxSlices + 1> by_gpcs{};
  Nanos operator[](int gpcs) const { return by_gpcs[static_cast<std::size_t>(gpcs)]; }
  Nanos& operator[](int gpcs) { return by_gpcs[static_cast<std::size_t>(gpcs)]; }
  bool operator==(const SizeTimes&) const = default;
};

struct Task {
  std::string name;              // unique
  std::vector<SizeTimes> times;  // one per GPU model of the problem
  std::string command = {};      // what to run, for the executor; may be empty
  Nanos release = 0;             // does not start before
  std::optional<Nanos> deadline = {};
  double priority = 1;                  // weight, > 0: of lateness, and of finishing early
  std::vector<std::string> after = {};  // tasks that must have ended before it starts
  double time_cv = 0;                   // of its times: standard deviation / mean
  int line = 0;                         // in its file, for messages; not compared
  bool operator==(const Task& other) const;
};

// Who creates and destroys instances, one at a time: every node for its GPUs, as NVIDIA's driver
// does, or every GPU by itself.
struct Reconfigurer {
  enum class Of { node, gpu };
  Of of = Of::node;
  int gpus_per_node = kGpusPerNode;  // neighbours in the list of GPUs; 1 to kMaxBatchGpus
  int number(int gpu) const { return of == Of::gpu ? gpu : gpu / gpus_per_node; }
  int count(int gpus) const { return gpus == 0 ? 0 : number(gpus - 1) + 1; }
  bool operator==(const Reconfigurer&) const = default;
};
const char* to_string(Reconfigurer::Of of);  // "node", "gpu"

struct BatchProblem {
  std::vector<Task> tasks;
  std::vector<hw::GpuModel> models;  // at least one, no name twice
  std::vector<int> gpus;             // per GPU its index into models; at least one
  Reconfigurer reconfigurer = {};
};

// Whether some task has a release time, a deadline or predecessors, so that more than the
// assignment of tasks to instances matters.
bool timed(const BatchProblem& problem);

struct ScheduledTask : hw::Placement {
  int gpu = 0;
  std::string task;
  Nanos begin = 0, end = 0;
  bool operator==(const ScheduledTask&) const = default;
};

struct Reconfiguration : hw::Placement {
  enum class Op { create, destroy };
  int gpu = 0;
  Op op = Op::create;
  Nanos begin = 0, end = 0;
  bool operator==(const Reconfiguration&) const = default;
};
const char* to_string(Reconfiguration::Op op);  // "create", "destroy"

struct BatchStats {
  double scheduling_ms = 0;  // CPU time of the scheduler alone
  long nodes = 0;            // search nodes and evaluated neighbours
};

struct BatchSchedule {
  std::string scheduler;
  std::vector<std::string> gpu_models;  // per GPU the catalogue name of its model
  Reconfigurer reconfigurer = {};       // of the problem that it answers
  Nanos makespan = 0;                   // the last task's end
  Nanos lower_bound = 0;                // no schedule at all is shorter
  bool optimal = false;                 // proven: makespan == lower_bound, or searched to the end
  std::vector<ScheduledTask> tasks;     // sorted by (begin, gpu, start, task)
  std::vector<Reconfiguration> reconfigurations;  // sorted by (begin, gpu, start)
  std::vector<std::string> explanation;           // why: one sentence each, for --explain
  BatchStats stats;
  std::string problem_digest = {};  // of what it answers (digest.h); empty: not stated
  // Equal decisions; stats, explanation and digest do not count.
  bool operator==(const BatchSchedule& other) const;
};

// A task that ends after its deadline.
struct LateTask {
  std::string task;
  Nanos deadline = 0, end = 0;
  bool operator==(const LateTask&) const = default;
};
// Who misses a deadline and by how much, in the problem's order.
std::vector<LateTask> late_tasks(const BatchProblem& problem, const BatchSchedule& schedule);

// Puts tasks and reconfigurations in the order stated above and sets the makespan.
void put_in_order(BatchSchedule& schedule);

}  // namespace partita::plan
