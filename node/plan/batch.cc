#include "plan/batch.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace partita::plan {

Nanos nanos(Seconds time) { return std::llround(time.value * 1e9); }
Seconds seconds(Nanos time) { return {static_cast<double>(time) / 1e9}; }

bool Task::operator==(const Task& other) const {
  const auto decisive = [](const Task& t) {
    return std::tie(t.name, t.times, t.command, t.release, t.deadline, t.priority, t.after,
                    t.time_cv);
  };
  return decisive(*this) == decisive(other);
}

bool timed(const BatchProblem& problem) {
  return std::ranges::any_of(problem.tasks, [](const Task& task) {
    return task.release > 0 || task.deadline || !task.after.empty();
  });
}

const char* to_string(Reconfigurer::Of of) {
  return of == Reconfigurer::Of::node ? "node" : "gpu";
}

const char* to_string(Reconfiguration::Op op) {
  return op == Reconfiguration::Op::create ? "create" : "destroy";
}

bool BatchSchedule::operator==(const BatchSchedule& other) const {
  const auto decisive = [](const BatchSchedule& s) {
    return std::tie(s.scheduler, s.gpu_models, s.makespan, s.lower_bound, s.optimal, s.tasks,
                    s.reconfigurations);
  };
  return decisive(*this) == decisive(other);
}

std::vector<LateTask> late_tasks(const BatchProblem& problem, const BatchSchedule& schedule) {
  std::map<std::string_view, Nanos> ends;
  for (const ScheduledTask& task : schedule.tasks) ends[task.task] = task.end;
  std::vector<LateTask> late;
  for (const Task& task : problem.tasks) {
    const auto found = ends.find(task.name);
    if (!task.deadline || found == ends.end() || found->second <= *task.deadline) continue;
    late.push_back({task.name, *task.deadline, found->second});
  }
  return late;
}

void put_in_order(BatchSchedule& schedule) {
  std::ranges::sort(schedule.tasks, {}, [](const ScheduledTask& t) {
    return std::tuple(t.begin, t.gpu, t.start, std::string_view(t.task),
                      std::string_view(t.profile), t.end);
  });
  std::ranges::sort(schedule.reconfigurations, {}, [](const Reconfiguration& r) {
    return std::tuple(r.begin, r.gpu, r.start, r.op, std::string_view(r.profile), r.end);
  });
  schedule.makespan = 0;
  for (const ScheduledTask& task : schedule.tasks) {
    schedule.makespan = std::max(schedule.makespan, task.end);
  }
}

}  // namespace partita::plan
