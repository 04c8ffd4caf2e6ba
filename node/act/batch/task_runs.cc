#include "act/batch/task_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::exec {

void earlier(std::optional<Nanos>& least, Nanos time) {
  least = std::min(least.value_or(time), time);
}

void RunNotes::record(Record record) {
  record.time = now;
  out.journal.push_back(std::move(record));
}

TaskRuns::TaskRuns(const Script& script, const Options& options, RunNotes& notes)
    : script_(script), options_(options), notes_(notes) {
  tasks_.resize(script.tasks.size());
  notes.report.tasks.resize(script.tasks.size());
  next_.resize(script.visits.size());
  at_work_.resize(script.visits.size());
  for (int t = 0; at(t) < tasks_.size(); ++t)
    for (const int before : script.tasks[at(t)].after) tasks_[at(before)].followers.push_back(t);
  open_ = tasks_.size();
}

void TaskRuns::take_over(int task, const PastTask& then) {
  TaskNow& state = tasks_[at(task)];
  TaskRun& run = notes_.report.tasks[at(task)];
  state.attempt = run.attempts = then.attempts;
  state.stopped_then = then.stopped;
  run.begin = then.begin;
  if (then.finished) {
    run.status = TaskStatus::finished;
    run.end = *then.finished;
    ++notes_.report.resumed;
    --open_;
  } else if (then.running) {
    state.pid = then.running;
    if (then.stopped) {  // whether it was told nobody knows
      state.stopped = notes_.now;
      notes_.out.actions.push_back(StopTask{*then.running, StopSignal::terminate});
    }
    state.adopted = true;
    ++at_work_[at(script_.tasks[at(task)].visit)];
    by_pid_[*then.running] = task;
    run.status = TaskStatus::running;
  }
}

void TaskRuns::decide(int task, const PastTask& then) {
  if (then.status) {
    ++at_work_[at(script_.tasks[at(task)].visit)];
    attempt_ended(task, *then.status);
  }
  if (then.left_out && !settled(task))
    settle(task, TaskStatus::not_run,
           "later instances are in its place; resume once more when they are gone");
  if (then.failed && !settled(task))
    settle(task, TaskStatus::failed, fmt::format("exit status {}", *then.failed));
}

bool TaskRuns::settled(int task) const {
  const TaskStatus status = notes_.report.tasks[at(task)].status;
  return status != TaskStatus::pending && status != TaskStatus::running;
}

void TaskRuns::settle(int task, TaskStatus status, const std::string& reason) {
  std::vector<int> skipped = {task};
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    const int t = skipped[i];
    if (settled(t)) continue;
    TaskRun& run = notes_.report.tasks[at(t)];
    run.status = i == 0 ? status : TaskStatus::skipped;
    run.reason = i == 0 ? reason : fmt::format("{} did not finish", script_.tasks[at(task)].name);
    if (status == TaskStatus::finished) run.reason.clear();
    --open_;
    notes_.touched.insert(script_.tasks[at(t)].visit);
    if (status == TaskStatus::finished) continue;
    const std::vector<int>& followers = tasks_[at(t)].followers;
    skipped.insert(skipped.end(), followers.begin(), followers.end());
  }
  for (const int t : tasks_[at(task)].followers) notes_.touched.insert(script_.tasks[at(t)].visit);
}

std::optional<int> TaskRuns::next_of(int visit) const {
  const std::vector<int>& tasks = script_.visits[at(visit)].tasks;
  std::size_t& next = next_[at(visit)];
  while (next < tasks.size() && settled(tasks[next])) ++next;
  return next < tasks.size() ? std::optional(tasks[next]) : std::nullopt;
}

bool TaskRuns::may_start(int task) const {
  const ScriptTask& script = script_.tasks[at(task)];
  return script.release <= notes_.now && std::ranges::all_of(script.after, [&](int before) {
           return notes_.report.tasks[at(before)].status == TaskStatus::finished;
         });
}

void TaskRuns::start(int task, const std::string& device) {
  TaskNow& state = tasks_[at(task)];
  ++at_work_[at(script_.tasks[at(task)].visit)];
  state.starting = true;
  ++state.attempt;
  TaskRun& run = notes_.report.tasks[at(task)];
  run.status = TaskStatus::running;
  run.attempts = state.attempt;
  run.begin = notes_.now;
  notes_.record(attempt_record(Record::Kind::start, task));
  notes_.out.actions.push_back(StartTask{task, state.attempt, device});
}

void TaskRuns::drop(int visit, const std::string& reason, bool stop) {
  for (const int task : script_.visits[at(visit)].tasks) {
    if (settled(task)) continue;
    const bool under_way = tasks_[at(task)].pid || tasks_[at(task)].starting;
    if (!under_way) settle(task, TaskStatus::not_run, reason);
    if (under_way && stop) doom(task, reason);
  }
}

// It is stopped and not tried again.
void TaskRuns::doom(int task, const std::string& reason) {
  TaskNow& state = tasks_[at(task)];
  if (state.doomed.empty()) state.doomed = reason;
  if (!state.pid || state.stopped) return;
  state.stopped = notes_.now;
  notes_.record(attempt_record(Record::Kind::stop, task));
  notes_.out.actions.push_back(StopTask{*state.pid, StopSignal::terminate});
}

void TaskRuns::started(const Started& event) {
  TaskNow& state = tasks_[at(event.task)];
  CHECK(std::exchange(state.starting, false));
  notes_.report.tasks[at(event.task)].begin = event.begin;
  if (!event.pid) {
    notes_.report.tasks[at(event.task)].reason = to_string(event.pid.error());
    constexpr int kNotStarted = 127;  // the shell's status of a command that is not there
    attempt_ended(event.task, kNotStarted);
    return;
  }
  state.pid = *event.pid;
  by_pid_[*event.pid] = event.task;
  if (!state.doomed.empty()) doom(event.task, state.doomed);
}

void TaskRuns::exited(const Exited& event) {
  const auto found = by_pid_.find(event.pid);
  if (found == by_pid_.end()) return;
  const int task = found->second;
  by_pid_.erase(found);
  attempt_ended(task, event.status);
}

void TaskRuns::attempt_ended(int task, int status) {
  TaskNow& state = tasks_[at(task)];
  TaskRun& run = notes_.report.tasks[at(task)];
  const bool asked_before = std::exchange(state.stopped_then, false);
  const bool in_time = !state.stopped && !asked_before;
  Record ended = attempt_record(Record::Kind::end, task);
  ended.status = status;
  ended.in_time = in_time;
  notes_.record(std::move(ended));
  --at_work_[at(script_.tasks[at(task)].visit)];
  run.end = notes_.now;
  const bool timed_out = std::exchange(state.timed_out, false);
  state.pid.reset();
  state.stopped.reset();
  state.killed = false;
  if (status == 0 && in_time) return settle(task, TaskStatus::finished, {});
  if (!state.doomed.empty()) {
    const bool wanted_away =
        notes_.report.interrupted ||
        notes_.withdrawn.contains(script_.visits[at(script_.tasks[at(task)].visit)].gpu);
    return settle(task, wanted_away ? TaskStatus::not_run : TaskStatus::failed, state.doomed);
  }
  std::string reason = std::exchange(run.reason, {});
  if (timed_out) {
    reason = "took too long";
  } else if (reason.empty()) {
    reason = status == kUnknownStatus ? "its exit status is unknown"
                                      : fmt::format("exit status {}", status);
  }
  run.status = TaskStatus::pending;
  const bool unseen = std::exchange(state.adopted, false) && status == kUnknownStatus;
  if (!unseen && !asked_before && ++state.failures > options_.retries)
    return settle(task, timed_out ? TaskStatus::timed_out : TaskStatus::failed, reason);
  notes_.touched.insert(script_.tasks[at(task)].visit);
}

void TaskRuns::watch_times() {
  for (const auto& [pid, task] : by_pid_) {
    TaskNow& state = tasks_[at(task)];
    const std::optional<Nanos>& timeout = script_.tasks[at(task)].timeout;
    if (!state.stopped && timeout && notes_.now - notes_.report.tasks[at(task)].begin >= *timeout) {
      state.stopped = notes_.now;
      state.timed_out = true;
      notes_.out.actions.push_back(StopTask{pid, StopSignal::terminate});
    } else if (state.stopped && !state.killed && notes_.now - *state.stopped >= options_.grace) {
      state.killed = true;
      notes_.out.actions.push_back(StopTask{pid, StopSignal::kill});
    }
  }
}

std::optional<Nanos> TaskRuns::next_wake() const {
  std::optional<Nanos> next;
  for (const auto& [pid, task] : by_pid_) {
    const TaskNow& state = tasks_[at(task)];
    const std::optional<Nanos>& timeout = script_.tasks[at(task)].timeout;
    if (state.killed) continue;
    if (state.stopped)
      earlier(next, *state.stopped + options_.grace);
    else if (timeout)
      earlier(next, notes_.report.tasks[at(task)].begin + *timeout);
  }
  return next;
}

Record TaskRuns::attempt_record(Record::Kind kind, int task) const {
  Record result;
  result.kind = kind;
  result.task = script_.tasks[at(task)].name;
  result.attempt = tasks_[at(task)].attempt;
  return result;
}

}  // namespace partita::exec
