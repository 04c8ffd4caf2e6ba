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

constexpr const char* kNeededElsewhere = "its GPU was needed for something else";

}  // namespace

BatchExecutor::BatchExecutor(const Script& script, const Options& options, const Past& past)
    : script_(script), options_(options), order_(script), tasks_(script, options_, notes_) {
  visits_.resize(script.visits.size());
  for (const ScriptGpu& gpu : script.gpus) notes_.report.changes.emplace_back(gpu.changes.size());
  for (int v = 0; at(v) < visits_.size(); ++v) {
    notes_.touched.insert(v);
    for (const int before : script.visits[at(v)].after) visits_[at(before)].followers.push_back(v);
  }
  open_visits_ = visits_.size();
  take_over(past);
}

void BatchExecutor::take_over(const Past& past) {
  notes_.now = past.now;
  for (int t = 0; at(t) < past.tasks.size(); ++t) tasks_.take_over(t, past.tasks[at(t)]);
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
  for (int t = 0; at(t) < past.tasks.size(); ++t) tasks_.decide(t, past.tasks[at(t)]);
}

Actions BatchExecutor::step(Nanos now, const std::vector<Event>& events) {
  CHECK(now >= notes_.now);
  notes_.now = now;
  for (const Event& event : events) std::visit([this](const auto& e) { handle(e); }, event);
  tasks_.watch_times();
  advance();
  begin_operation();
  finished_ = tasks_.over() && open_visits_ == 0 && !current_;
  return std::exchange(notes_.out, {});
}

std::optional<Nanos> BatchExecutor::next_wake() const {
  std::optional<Nanos> next;
  if (!current_) {
    next = order_.wake(notes_.now);
    for (const auto& [visit, time] : stale_) earlier(next, time);
  }
  for (const int v : alive_) {
    const std::optional<int> task = tasks_.next_of(v);
    if (task && script_.tasks[at(*task)].release > notes_.now)
      earlier(next, script_.tasks[at(*task)].release);
  }
  if (const auto time = tasks_.next_wake()) earlier(next, *time);
  return next;
}

// ---- reconfigurations ----

ChangeRun& BatchExecutor::change_run(int visit, bool create) {
  const ChangeId id = order_.id(visit, create);
  return notes_.report.changes[at(id.gpu)][at(id.rank)];
}

Record BatchExecutor::visit_record(Record::Kind kind, int visit) const {
  Record result;
  result.kind = kind;
  result.visit = visit;
  result.made = visits_[at(visit)].made;
  return result;
}

void BatchExecutor::begin_operation() {
  if (current_) return;
  const auto due =
      std::ranges::find_if(stale_, [&](const auto& s) { return s.second <= notes_.now; });
  if (due != stale_.end()) {
    const int visit = due->first;
    stale_.erase(due);
    return begin_operation({visit, Operation::Kind::destroy, true}, {});
  }
  const std::optional<ChangeId> id = order_.take(notes_.now);
  if (!id) return;
  const Change& change = order_.at(*id);
  ChangeRun& run = change_run(change.visit, change.create);
  run.status = ChangeStatus::running;
  run.begin = notes_.now;
  ++run.tries;
  begin_operation(
      {change.visit, change.create ? Operation::Kind::look : Operation::Kind::destroy, false}, {});
}

void BatchExecutor::begin_operation(const Current& next, std::vector<int> present) {
  VisitNow& state = visits_[at(next.visit)];
  const Visit& visit = script_.visits[at(next.visit)];
  Operation operation{.kind = next.kind,
                      .device = script_.gpus[at(visit.gpu)].device,
                      .place = visit.place,
                      .nvml_enum = visit.nvml_enum,
                      .size = visit.size,
                      .present = std::move(present),
                      .made = state.made};
  state.state = Place::busy;
  current_ = next;
  notes_.out.actions.emplace_back(BeginOperation{std::move(operation)});
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
  if (!tasks_.next_of(visit)) {
    change_run(visit, true).status = ChangeStatus::pending;
    visits_[at(visit)].state = Place::waiting;
    notes_.touched.insert(visit);
    return;
  }
  notes_.record(visit_record(Record::Kind::create, visit));
  begin_operation({visit, Operation::Kind::create, false}, present);
}

void BatchExecutor::created(int visit, const Made& made) {
  VisitNow& state = visits_[at(visit)];
  state.made = made;
  state.refused_since.reset();
  state.state = Place::alive;
  notes_.record(visit_record(Record::Kind::created, visit));
  ChangeRun& run = change_run(visit, true);
  run.status = ChangeStatus::done;
  run.end = notes_.now;
  order_.done(order_.id(visit, true));
  alive_.insert(visit);
  notes_.touched.insert(visit);
}

void BatchExecutor::destroyed(int visit, bool clean_up) {
  notes_.record(visit_record(Record::Kind::destroyed, visit));
  if (clean_up) {  // the place is free; it may be made again
    visits_[at(visit)].state = Place::waiting;
    notes_.touched.insert(visit);
    return;
  }
  ChangeRun& run = change_run(visit, false);
  run.status = ChangeStatus::done;
  run.end = notes_.now;
  end(visit, Place::gone);
}

void BatchExecutor::refused(const Current& current, const Outcome& outcome) {
  const Error& error = *outcome.error;
  VisitNow& state = visits_[at(current.visit)];
  ChangeRun& run = change_run(current.visit, current.creates());
  run.reason = to_string(error);
  if (!current.clean_up) {
    run.status = ChangeStatus::pending;
    run.end = notes_.now;
  }
  const bool half_made = current.creates() && outcome.made;
  if (half_made) {
    state.made = *outcome.made;
    notes_.record(visit_record(Record::Kind::stale, current.visit));
  } else if (current.kind == Operation::Kind::create && !outcome.unknown) {
    // No longer announced: what appears there now is somebody else's.
    notes_.record(visit_record(Record::Kind::destroyed, current.visit));
  }
  if (error.code == ErrorCode::lost) {
    state.state = current.creates() ? Place::waiting : Place::stale;
    lose_gpu(script_.visits[at(current.visit)].gpu, to_string(error));
    return;
  }
  if (!state.refused_since) state.refused_since = notes_.now;
  // A half-made instance has to be cleaned up in any case.
  const bool patient =
      worth_waiting(error.code) && notes_.now - *state.refused_since < options_.patience;
  state.not_before = notes_.now + options_.pause;
  if (half_made) {
    state.state = Place::stale;
    stale_[current.visit] = notes_.now;
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
  notes_.report.refusals.push_back(to_string(error));
  change_run(visit, true).status = ChangeStatus::failed;
  change_run(visit, false).status = ChangeStatus::skipped;
  tasks_.drop(visit, to_string(error));
}

void BatchExecutor::give_up_destroying(int visit, const Error& error) {
  notes_.report.refusals.push_back(to_string(error));
  const Visit& script = script_.visits[at(visit)];
  notes_.report.left.push_back(fmt::format("{} on GPU {}: {}", place_text(script),
                                           script_.gpus[at(script.gpu)].device, error.message));
  change_run(visit, false).status = ChangeStatus::failed;
  if (ChangeRun& half = change_run(visit, true); half.status == ChangeStatus::pending)
    half.status = ChangeStatus::failed;
  tasks_.drop(visit, to_string(error));
  end(visit, Place::blocked);
}

// Nothing can be done on it any more. Its processes are stopped; instances on a lost GPU are not
// counted as left: they end with the reset that brings it back.
void BatchExecutor::lose_gpu(int gpu, const std::string& reason) {
  notes_.report.refusals.push_back(reason);
  for (int v = 0; at(v) < visits_.size(); ++v) {
    if (script_.visits[at(v)].gpu != gpu) continue;
    tasks_.drop(v, reason);
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
  notes_.touched.insert(now.followers.begin(), now.followers.end());
}

void BatchExecutor::handle(const Interrupted&) {
  if (std::exchange(notes_.report.interrupted, true)) return;
  for (int v = 0; at(v) < visits_.size(); ++v) tasks_.drop(v, "the run was interrupted");
}

void BatchExecutor::handle(const Withdrawn& event) {
  notes_.withdrawn.insert(event.gpu);
  order_.hurry(event.gpu);
  for (int v = 0; at(v) < visits_.size(); ++v) {
    if (script_.visits[at(v)].gpu != event.gpu) continue;
    tasks_.drop(v, kNeededElsewhere, event.stop);
    notes_.touched.insert(v);
  }
}

bool BatchExecutor::has_left(int gpu) const {
  if (!notes_.withdrawn.contains(gpu)) return false;
  for (std::size_t v = 0; v < visits_.size(); ++v) {
    if (script_.visits[v].gpu != gpu) continue;
    const bool ended = visits_[v].state == Place::gone || visits_[v].state == Place::blocked;
    if (!ended || tasks_.at_work(static_cast<int>(v))) return false;
  }
  return true;
}

// ---- going on ----

void BatchExecutor::advance() {
  notes_.touched.insert(alive_.begin(), alive_.end());
  while (!notes_.touched.empty()) {
    const int visit = *notes_.touched.begin();
    notes_.touched.erase(notes_.touched.begin());
    examine(visit);
  }
}

bool BatchExecutor::keeps(int visit) const {
  return options_.keep && !order_.at(order_.id(visit, false)).planned;
}

void BatchExecutor::examine(int visit) {
  const VisitNow& state = visits_[at(visit)];
  if (state.state == Place::waiting) return examine_waiting(visit);
  if (state.state != Place::alive) return;
  if (const std::optional<int> task = tasks_.next_of(visit)) {
    if (tasks_.at_work(visit)) return;
    if (notes_.withdrawn.contains(script_.visits[at(visit)].gpu))
      return tasks_.settle(*task, TaskStatus::not_run, kNeededElsewhere);
    if (tasks_.may_start(*task)) tasks_.start(*task, state.made.uuid);
    return;
  }
  if (!keeps(visit)) return order_.ready(order_.id(visit, false), state.not_before);
  change_run(visit, false).status = ChangeStatus::kept;
  end(visit, Place::blocked);
}

void BatchExecutor::examine_waiting(int visit) {
  const VisitNow& state = visits_[at(visit)];
  bool gone = true;
  for (const int before : script_.visits[at(visit)].after) {
    const Place place = visits_[at(before)].state;
    if (place == Place::blocked) {
      tasks_.drop(visit, fmt::format("{} is in the way", place_text(script_.visits[at(before)])));
      for (const bool create : {true, false})
        change_run(visit, create).status = ChangeStatus::skipped;
      return end(visit, Place::blocked);
    }
    gone = gone && place == Place::gone;
  }
  if (!gone) return;
  if (tasks_.next_of(visit)) return order_.ready(order_.id(visit, true), state.not_before);
  for (const bool create : {true, false}) {
    ChangeRun& run = change_run(visit, create);
    if (run.status == ChangeStatus::pending) run.status = ChangeStatus::skipped;
  }
  end(visit, Place::gone);
}

}  // namespace partita::exec
