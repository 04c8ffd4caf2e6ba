#include "act/batch/batch_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::exec {
namespace {

// Refusals that may go away by themselves.
bool worth_waiting(ErrorCode code) {
  return code == ErrorCode::in_use || code == ErrorCode::no_room || code == ErrorCode::timeout ||
         code == ErrorCode::environment || code == ErrorCode::limit;
}

void earlier(std::optional<Nanos>& least, Nanos time) {
  least = std::min(least.value_or(time), time);
}

}  // namespace

BatchExecutor::BatchExecutor(const Script& script, const Options& options, const Past& past)
    : script_(script), options_(options), order_(script) {
  visits_.resize(script.visits.size());
  tasks_.resize(script.tasks.size());
  report_.tasks.resize(script.tasks.size());
  for (const ScriptGpu& gpu : script.gpus) report_.changes.emplace_back(gpu.changes.size());
  for (int v = 0; at(v) < visits_.size(); ++v) {
    touched_.insert(v);
    for (const int before : script.visits[at(v)].after) visits_[at(before)].followers.push_back(v);
  }
  for (int t = 0; at(t) < tasks_.size(); ++t)
    for (const int before : script.tasks[at(t)].after) tasks_[at(before)].followers.push_back(t);
  open_visits_ = visits_.size();
  open_tasks_ = tasks_.size();
  take_over(past);
}

void BatchExecutor::take_over(const Past& past) {
  now_ = past.now;
  for (std::size_t t = 0; t < past.tasks.size(); ++t) {
    const PastTask& then = past.tasks[t];
    TaskRun& run = report_.tasks[t];
    tasks_[t].attempt = run.attempts = then.attempts;
    tasks_[t].stopped_then = then.stopped;
    run.begin = then.begin;
    if (then.finished) {
      run.status = TaskStatus::finished;
      run.end = *then.finished;
      ++report_.resumed;
      --open_tasks_;
    } else if (then.running) {
      tasks_[t].pid = then.running;
      if (then.stopped) {  // whether it was told nobody knows
        tasks_[t].stopped = now_;
        out_.actions.push_back(StopTask{*then.running, StopSignal::terminate});
      }
      tasks_[t].adopted = true;
      ++visits_[at(script_.tasks[t].visit)].at_work;
      by_pid_[*then.running] = static_cast<int>(t);
      run.status = TaskStatus::running;
    }
  }
  for (int v = 0; at(v) < past.visits.size(); ++v) {
    const PastVisit& then = past.visits[at(v)];
    visits_[at(v)].made = then.made;
    if (then.state == PastVisit::State::waiting) continue;
    if (then.state == PastVisit::State::stale) {
      visits_[at(v)].state = Place::stale;
      stale_[v] = 0;
      continue;
    }
    change_run(v, true) = {ChangeStatus::done, 1, then.created.begin, then.created.end, {}};
    order_.done(order_.id(v, true));
    visits_[at(v)].state = Place::alive;
    alive_.insert(v);
    if (then.state == PastVisit::State::gone) {
      change_run(v, false) = {ChangeStatus::done, 1, then.destroyed, then.destroyed, {}};
      end(v, Place::gone);
    }
  }
  for (int t = 0; at(t) < past.tasks.size(); ++t) {
    if (past.tasks[at(t)].status) {
      ++visits_[at(script_.tasks[at(t)].visit)].at_work;
      attempt_ended(t, *past.tasks[at(t)].status);
    }
    if (past.tasks[at(t)].left_out && !settled(t))
      settle(t, TaskStatus::not_run,
             "later instances are in its place; resume once more when they are gone");
    if (past.tasks[at(t)].failed && !settled(t))
      settle(t, TaskStatus::failed, fmt::format("exit status {}", *past.tasks[at(t)].failed));
  }
}

Actions BatchExecutor::step(Nanos now, const std::vector<Event>& events) {
  CHECK(now >= now_);
  now_ = now;
  for (const Event& event : events) std::visit([this](const auto& e) { handle(e); }, event);
  watch_times();
  advance();
  begin_operation();
  update_finished();
  return std::exchange(out_, {});
}

std::optional<Nanos> BatchExecutor::next_wake() const {
  std::optional<Nanos> next;
  if (!current_) {
    next = order_.wake(now_);
    for (const auto& [visit, time] : stale_) earlier(next, time);
  }
  for (const int v : alive_) {
    const std::vector<int>& tasks = script_.visits[at(v)].tasks;
    const std::size_t index = visits_[at(v)].next;
    if (index == tasks.size()) continue;
    const Nanos release = script_.tasks[at(tasks[index])].release;
    if (release > now_) earlier(next, release);
  }
  for (const auto& [pid, task] : by_pid_) {
    const TaskNow& state = tasks_[at(task)];
    const std::optional<Nanos>& timeout = script_.tasks[at(task)].timeout;
    if (state.killed) continue;
    if (state.stopped) {
      earlier(next, *state.stopped + options_.grace);
    } else if (timeout) {
      earlier(next, report_.tasks[at(task)].begin + *timeout);
    }
  }
  return next;
}

// ---- reconfigurations ----

ChangeRun& BatchExecutor::change_run(int visit, bool create) {
  const ChangeId id = order_.id(visit, create);
  return report_.changes[at(id.gpu)][at(id.rank)];
}

void BatchExecutor::record(Record record) {
  record.time = now_;
  out_.journal.push_back(std::move(record));
}

Record BatchExecutor::visit_record(Record::Kind kind, int visit) const {
  Record result;
  result.kind = kind;
  result.visit = visit;
  result.made = visits_[at(visit)].made;
  return result;
}

Record BatchExecutor::attempt_record(Record::Kind kind, int task) const {
  Record result;
  result.kind = kind;
  result.task = script_.tasks[at(task)].name;
  result.attempt = tasks_[at(task)].attempt;
  return result;
}

void BatchExecutor::begin_operation() {
  if (current_) return;
  const auto due = std::ranges::find_if(stale_, [&](const auto& s) { return s.second <= now_; });
  if (due != stale_.end()) {
    const int visit = due->first;
    stale_.erase(due);
    return begin_operation({visit, Operation::Kind::destroy, true}, {});
  }
  const std::optional<ChangeId> id = order_.take(now_);
  if (!id) return;
  const Change& change = order_.at(*id);
  ChangeRun& run = change_run(change.visit, change.create);
  run.status = ChangeStatus::running;
  run.begin = now_;
  ++run.tries;
  begin_operation(
      {change.visit, change.create ? Operation::Kind::look : Operation::Kind::destroy, false}, {});
}

void BatchExecutor::begin_operation(const Current& next, std::vector<int> present) {
  VisitNow& state = visits_[at(next.visit)];
  const Visit& visit = script_.visits[at(next.visit)];
  Operation operation{.kind = next.kind,
                      .device = script_.gpus[at(visit.gpu)].device,
                      .profile = visit.profile,
                      .nvml_enum = visit.nvml_enum,
                      .start = visit.start,
                      .size = visit.size,
                      .present = std::move(present),
                      .made = state.made};
  state.state = Place::busy;
  current_ = next;
  out_.actions.emplace_back(BeginOperation{std::move(operation)});
}

void BatchExecutor::handle(const OperationDone& event) {
  CHECK(current_.has_value());
  const Current current = *std::exchange(current_, std::nullopt);
  if (event.outcome.error) {
    refused(current, event.outcome);
  } else if (current.kind == Operation::Kind::look) {
    looked(current.visit, event.outcome.present);
  } else if (current.kind == Operation::Kind::create) {
    CHECK(event.outcome.made.has_value());
    created(current.visit, *event.outcome.made);
  } else {
    destroyed(current.visit, current.clean_up);
  }
}

// A creation is announced only once its place was seen to be free, so that what is there after a
// death is ours. By then the instance may be needed no more.
void BatchExecutor::looked(int visit, const std::vector<int>& present) {
  if (all_settled(visits_[at(visit)], script_.visits[at(visit)])) {
    change_run(visit, true).status = ChangeStatus::pending;
    visits_[at(visit)].state = Place::waiting;
    touched_.insert(visit);
    return;
  }
  record(visit_record(Record::Kind::create, visit));
  begin_operation({visit, Operation::Kind::create, false}, present);
}

void BatchExecutor::created(int visit, const Made& made) {
  VisitNow& state = visits_[at(visit)];
  state.made = made;
  state.refused_since.reset();
  state.state = Place::alive;
  record(visit_record(Record::Kind::created, visit));
  ChangeRun& run = change_run(visit, true);
  run.status = ChangeStatus::done;
  run.end = now_;
  order_.done(order_.id(visit, true));
  alive_.insert(visit);
  touched_.insert(visit);
}

void BatchExecutor::destroyed(int visit, bool clean_up) {
  record(visit_record(Record::Kind::destroyed, visit));
  if (clean_up) {  // the place is free; it may be made again
    visits_[at(visit)].state = Place::waiting;
    touched_.insert(visit);
    return;
  }
  ChangeRun& run = change_run(visit, false);
  run.status = ChangeStatus::done;
  run.end = now_;
  end(visit, Place::gone);
}

void BatchExecutor::refused(const Current& current, const Outcome& outcome) {
  const Error& error = *outcome.error;
  VisitNow& state = visits_[at(current.visit)];
  ChangeRun& run = change_run(current.visit, current.creates());
  run.reason = to_string(error);
  if (!current.clean_up) {
    run.status = ChangeStatus::pending;
    run.end = now_;
  }
  const bool half_made = current.creates() && outcome.made;
  if (half_made) {
    state.made = *outcome.made;
    record(visit_record(Record::Kind::stale, current.visit));
  } else if (current.kind == Operation::Kind::create && !outcome.unknown) {
    // No longer announced: what appears there now is somebody else's.
    record(visit_record(Record::Kind::destroyed, current.visit));
  }
  if (error.code == ErrorCode::lost) {
    state.state = current.creates() ? Place::waiting : Place::stale;
    lose_gpu(script_.visits[at(current.visit)].gpu, to_string(error));
    return;
  }
  if (!state.refused_since) state.refused_since = now_;
  // A half-made instance has to be cleaned up in any case.
  const bool patient = worth_waiting(error.code) && now_ - *state.refused_since < options_.patience;
  state.not_before = now_ + options_.pause;
  if (half_made) {
    state.state = Place::stale;
    stale_[current.visit] = now_;
    if (!patient) give_up_creating(current.visit, error);
  } else if (!patient) {
    if (!current.creates()) return give_up_destroying(current.visit, error);
    give_up_creating(current.visit, error);
    end(current.visit, Place::gone);
  } else if (current.clean_up) {
    state.state = Place::stale;
    stale_[current.visit] = state.not_before;
  } else {
    state.state = current.creates() ? Place::waiting : Place::alive;
    order_.ready(order_.id(current.visit, current.creates()), state.not_before);
  }
}

void BatchExecutor::give_up_creating(int visit, const Error& error) {
  report_.refusals.push_back(to_string(error));
  change_run(visit, true).status = ChangeStatus::failed;
  change_run(visit, false).status = ChangeStatus::skipped;
  drop_tasks(visit, to_string(error));
}

void BatchExecutor::give_up_destroying(int visit, const Error& error) {
  report_.refusals.push_back(to_string(error));
  const Visit& script = script_.visits[at(visit)];
  report_.left.push_back(fmt::format("{} on GPU {}: {}", place_text(script),
                                     script_.gpus[at(script.gpu)].device, error.message));
  change_run(visit, false).status = ChangeStatus::failed;
  if (ChangeRun& half = change_run(visit, true); half.status == ChangeStatus::pending)
    half.status = ChangeStatus::failed;
  drop_tasks(visit, to_string(error));
  end(visit, Place::blocked);
}

// Nothing can be done on it any more. Its processes are stopped; instances on a lost GPU are not
// counted as left: they end with the reset that brings it back.
void BatchExecutor::lose_gpu(int gpu, const std::string& reason) {
  report_.refusals.push_back(reason);
  for (int v = 0; at(v) < visits_.size(); ++v) {
    if (script_.visits[at(v)].gpu != gpu) continue;
    drop_tasks(v, reason);
    const Place state = visits_[at(v)].state;
    if (state == Place::gone || state == Place::blocked) continue;
    for (const bool create : {true, false}) {
      ChangeRun& run = change_run(v, create);
      if (run.status == ChangeStatus::done) continue;
      run.status = run.tries > 0 ? ChangeStatus::failed : ChangeStatus::skipped;
      run.reason = reason;
    }
    stale_.erase(v);
    end(v, Place::blocked);
  }
}

// No more waiting for this visit: its reconfigurations are over, one way or the other.
void BatchExecutor::end(int visit, Place state) {
  VisitNow& now = visits_[at(visit)];
  now.state = state;
  alive_.erase(visit);
  order_.done(order_.id(visit, true));
  order_.done(order_.id(visit, false));
  --open_visits_;
  touched_.insert(now.followers.begin(), now.followers.end());
}

// ---- tasks ----

bool BatchExecutor::settled(int task) const {
  const TaskStatus status = report_.tasks[at(task)].status;
  return status != TaskStatus::pending && status != TaskStatus::running;
}

void BatchExecutor::settle(int task, TaskStatus status, const std::string& reason) {
  std::vector<int> skipped = {task};
  for (std::size_t i = 0; i < skipped.size(); ++i) {
    const int t = skipped[i];
    if (settled(t)) continue;
    TaskRun& run = report_.tasks[at(t)];
    run.status = i == 0 ? status : TaskStatus::skipped;
    run.reason = i == 0 ? reason : fmt::format("{} did not finish", script_.tasks[at(task)].name);
    if (status == TaskStatus::finished) run.reason.clear();
    --open_tasks_;
    touched_.insert(script_.tasks[at(t)].visit);
    if (status == TaskStatus::finished) continue;
    const std::vector<int>& followers = tasks_[at(t)].followers;
    skipped.insert(skipped.end(), followers.begin(), followers.end());
  }
  for (const int t : tasks_[at(task)].followers) touched_.insert(script_.tasks[at(t)].visit);
}

void BatchExecutor::drop_tasks(int visit, const std::string& reason) {
  for (const int task : script_.visits[at(visit)].tasks) {
    if (settled(task)) continue;
    if (tasks_[at(task)].pid || tasks_[at(task)].starting) {
      doom(task, reason);
    } else {
      settle(task, TaskStatus::not_run, reason);
    }
  }
}

// It is stopped and not tried again.
void BatchExecutor::doom(int task, const std::string& reason) {
  TaskNow& state = tasks_[at(task)];
  state.doomed = reason;
  if (!state.pid || state.stopped) return;
  state.stopped = now_;
  record(attempt_record(Record::Kind::stop, task));
  out_.actions.push_back(StopTask{*state.pid, StopSignal::terminate});
}

void BatchExecutor::handle(const Interrupted&) {
  if (std::exchange(report_.interrupted, true)) return;
  for (int v = 0; at(v) < visits_.size(); ++v) drop_tasks(v, "the run was interrupted");
}

void BatchExecutor::handle(const Withdrawn& event) {
  const std::string reason = "its GPU was needed for something else";
  withdrawn_.insert(event.gpu);
  order_.hurry(event.gpu);
  for (int v = 0; at(v) < visits_.size(); ++v) {
    if (script_.visits[at(v)].gpu != event.gpu) continue;
    for (const int task : script_.visits[at(v)].tasks) {
      if (settled(task)) continue;
      const bool at_work = tasks_[at(task)].pid || tasks_[at(task)].starting;
      if (!at_work) settle(task, TaskStatus::not_run, reason);
      if (at_work && event.stop && tasks_[at(task)].doomed.empty()) doom(task, reason);
    }
    touched_.insert(v);
  }
}

bool BatchExecutor::has_left(int gpu) const {
  if (!withdrawn_.contains(gpu)) return false;
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    if (script_.visits[v].gpu != gpu) continue;
    const bool ended = visits_[v].state == Place::gone || visits_[v].state == Place::blocked;
    if (!ended || visits_[v].at_work > 0) return false;
  }
  return true;
}

void BatchExecutor::handle(const Started& event) {
  TaskNow& state = tasks_[at(event.task)];
  CHECK(std::exchange(state.starting, false));
  report_.tasks[at(event.task)].begin = event.begin;
  if (!event.pid) {
    report_.tasks[at(event.task)].reason = to_string(event.pid.error());
    constexpr int kNotStarted = 127;  // the shell's status of a command that is not there
    attempt_ended(event.task, kNotStarted);
    return;
  }
  state.pid = *event.pid;
  by_pid_[*event.pid] = event.task;
  if (!state.doomed.empty()) doom(event.task, state.doomed);
}

void BatchExecutor::handle(const Exited& event) {
  const auto found = by_pid_.find(event.pid);
  if (found == by_pid_.end()) return;
  const int task = found->second;
  by_pid_.erase(found);
  attempt_ended(task, event.status);
}

void BatchExecutor::attempt_ended(int task, int status) {
  TaskNow& state = tasks_[at(task)];
  TaskRun& run = report_.tasks[at(task)];
  const bool asked_before = std::exchange(state.stopped_then, false);
  const bool in_time = !state.stopped && !asked_before;
  Record ended = attempt_record(Record::Kind::end, task);
  ended.status = status;
  ended.in_time = in_time;
  record(std::move(ended));
  --visits_[at(script_.tasks[at(task)].visit)].at_work;
  run.end = now_;
  const bool timed_out = std::exchange(state.timed_out, false);
  state.pid.reset();
  state.stopped.reset();
  state.killed = false;
  if (status == 0 && in_time) return settle(task, TaskStatus::finished, {});
  if (!state.doomed.empty()) {
    const bool wanted_away =
        report_.interrupted ||
        withdrawn_.contains(script_.visits[at(script_.tasks[at(task)].visit)].gpu);
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
  touched_.insert(script_.tasks[at(task)].visit);
}

void BatchExecutor::watch_times() {
  for (const auto& [pid, task] : by_pid_) {
    TaskNow& state = tasks_[at(task)];
    const std::optional<Nanos>& timeout = script_.tasks[at(task)].timeout;
    if (!state.stopped && timeout && now_ - report_.tasks[at(task)].begin >= *timeout) {
      state.stopped = now_;
      state.timed_out = true;
      out_.actions.push_back(StopTask{pid, StopSignal::terminate});
    } else if (state.stopped && !state.killed && now_ - *state.stopped >= options_.grace) {
      state.killed = true;
      out_.actions.push_back(StopTask{pid, StopSignal::kill});
    }
  }
}

// ---- going on ----

void BatchExecutor::advance() {
  touched_.insert(alive_.begin(), alive_.end());
  while (!touched_.empty()) {
    const int visit = *touched_.begin();
    touched_.erase(touched_.begin());
    examine(visit);
  }
}

bool BatchExecutor::all_settled(VisitNow& visit, const Visit& script) const {
  while (visit.next < script.tasks.size() && settled(script.tasks[visit.next])) ++visit.next;
  return visit.next == script.tasks.size();
}

bool BatchExecutor::keeps(int visit) const {
  return options_.keep && !order_.at(order_.id(visit, false)).planned;
}

void BatchExecutor::examine(int visit) {
  VisitNow& state = visits_[at(visit)];
  if (state.state == Place::waiting) return examine_waiting(visit);
  if (state.state != Place::alive) return;
  if (!all_settled(state, script_.visits[at(visit)])) return start_next(visit);
  if (!keeps(visit)) return order_.ready(order_.id(visit, false), state.not_before);
  change_run(visit, false).status = ChangeStatus::kept;
  end(visit, Place::blocked);
}

void BatchExecutor::examine_waiting(int visit) {
  VisitNow& state = visits_[at(visit)];
  bool gone = true;
  for (const int before : script_.visits[at(visit)].after) {
    const Place place = visits_[at(before)].state;
    if (place == Place::blocked) {
      drop_tasks(visit, fmt::format("{} is in the way", place_text(script_.visits[at(before)])));
      for (const bool create : {true, false})
        change_run(visit, create).status = ChangeStatus::skipped;
      return end(visit, Place::blocked);
    }
    gone = gone && place == Place::gone;
  }
  if (!gone) return;
  if (!all_settled(state, script_.visits[at(visit)])) {
    order_.ready(order_.id(visit, true), state.not_before);
    return;
  }
  for (const bool create : {true, false}) {
    ChangeRun& run = change_run(visit, create);
    if (run.status == ChangeStatus::pending) run.status = ChangeStatus::skipped;
  }
  end(visit, Place::gone);
}

void BatchExecutor::start_next(int visit) {
  const int index = script_.visits[at(visit)].tasks[visits_[at(visit)].next];
  const ScriptTask& task = script_.tasks[at(index)];
  TaskNow& state = tasks_[at(index)];
  if (visits_[at(visit)].at_work > 0) return;
  if (withdrawn_.contains(script_.visits[at(visit)].gpu))
    return settle(index, TaskStatus::not_run, "its GPU was needed for something else");
  if (task.release > now_) return;
  for (const int before : task.after)
    if (report_.tasks[at(before)].status != TaskStatus::finished) return;
  ++visits_[at(visit)].at_work;
  state.starting = true;
  ++state.attempt;
  TaskRun& run = report_.tasks[at(index)];
  run.status = TaskStatus::running;
  run.attempts = state.attempt;
  run.begin = now_;
  record(attempt_record(Record::Kind::start, index));
  out_.actions.push_back(StartTask{index, state.attempt, visits_[at(visit)].made.uuid});
}

void BatchExecutor::update_finished() {
  finished_ = open_tasks_ == 0 && open_visits_ == 0 && !current_ && by_pid_.empty();
}

}  // namespace partita::exec
