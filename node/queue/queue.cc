#include "queue/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::queue {
namespace {

constexpr Nanos kMilli = 1'000'000;
constexpr int kUnknownStatus = -1;
// A task that takes its GPU with it must not go through all of them: from so many attempts on, one
// that loses its instance counts as failed.
constexpr int kMostLost = 4;

long ms_of(Nanos time) { return time / kMilli; }

// What it waits for has ended otherwise.
bool doomed(const Task& task, const std::map<long, Task>& tasks) {
  return std::ranges::any_of(task.spec.after, [&](const Dependency& one) {
    const auto before = tasks.find(one.task);
    if (before == tasks.end() || !is_over(before->second.state)) return false;
    return !one.met_by(before->second.state);
  });
}

}  // namespace

// ---- from a store

Result<Queue> Queue::create(const Config& config, const Loaded& loaded,
                            const std::vector<FoundInstance>& found, Nanos now) {
  plan::BatchProblem gpus{{}, config.models, config.gpus, config.reconfigurer};
  auto planner = TRY(planners::batch::LivePlanner::create(std::move(gpus), config.planning));
  planner.machine().capacity(config.cpus, config.ram_gib);
  Queue queue(config, std::move(planner));
  queue.spots_ = spots_of(queue.planner_.machine().forest(),
                          {{}, config.models, config.gpus, config.reconfigurer}, config.indices);
  queue.now_ = now;
  queue.shares_ = Shares(config.shares);
  queue.hours_ = Hours(config.tariff);
  queue.restore(loaded, found);
  return queue;
}

void Queue::restore(const Loaded& loaded, const std::vector<FoundInstance>& found) {
  last_id_ = loaded.last_id;
  for (const auto& [key, stats] : loaded.times) times_.restore(key, stats);
  for (const auto& [user, usage] : loaded.usage) shares_.restore(user, usage);
  for (const FoundInstance& one : found) {
    planner_.machine().found(one.node);
    devices_[one.node] = one.device;
    idle_since_[one.node] = now_;
  }
  for (const Task& kept : loaded.tasks) {
    Task& task = tasks_[kept.id] = kept;
    // The clock may have been set back.
    task.submitted_ms = std::min(task.submitted_ms, ms_of(now_));
    task.began_ms = std::min(task.began_ms, ms_of(now_));
    ++open_[task.spec.user];
    for (const Dependency& one : task.spec.after) {
      if (tasks_.contains(one.task)) followers_[one.task].push_back(task.id);
    }
    turns_.give(task, shares_.share(task.spec.user));  // as they came, whatever became of them
    if (task.state == State::waiting) turns_.wait(task);
    if (task.attempts == 0) hours_.came(task);
    if (task.state != State::starting && task.state != State::running) continue;
    running_[task.spec.user] += task.spec.gpus;
    under_[task.id] = {.stopped = {}, .saving = {}, .unknown = true};
    if (!task.ending.empty()) under_[task.id].stopped = now_;
    std::vector<int> nodes;
    for (Place& place : task.places) {
      // The driver may count its GPUs otherwise by now.
      const auto is =
          std::ranges::find(devices_, place.device, [](const auto& one) { return one.second; });
      if (is != devices_.end()) place.gpu = spots_[at(is->first)].gpu;
      const int node = node_at(spots_, place);
      if (node >= 0 && devices_.try_emplace(node, place.device).second)
        planner_.machine().found(node);  // until the host says that it is gone
      if (node < 0 || !planner_.machine().idle(node)) continue;
      nodes.push_back(node);
      idle_since_.erase(node);
    }
    if (!nodes.empty()) planner_.machine().began(live(task), nodes, task.began_ms * kMilli);
  }
  // What may yet come is judged by what came before; what waits comes anew by offer().
  std::map<long, const Task*> came;
  for (const auto* tasks : {&loaded.recent, &loaded.tasks}) {
    for (const Task& task : *tasks) {
      if (task.attempts > 0) came.emplace(task.id, &task);
    }
  }
  for (const auto& [id, task] : came) planner_.came(live(*task));
}

Place place_of(const std::vector<Spot>& spots, const std::map<int, std::string>& devices,
               int node) {
  const Spot& spot = spots[at(node)];
  const auto device = devices.find(node);
  return {spot, spot.gpu, device == devices.end() ? "" : device->second};
}

// ---- what happens

Outputs Queue::step(Nanos now, const std::vector<Event>& events) {
  now_ = std::max(now_, now);
  out_ = {};
  for (const Event& event : events) std::visit([&](const auto& e) { handle(e); }, event);
  offer();
  watch_limits();
  decide();
  if ((!events.empty() || now_ >= hours_.next().value_or(0)) && choose_hours()) {
    offer();
    decide();
  }
  if (const auto next = hours_.next()) out_.wake_at(*next);
  preempt();
  return_idle();
  // Who ended stays until here: what else happened in this step may be about them.
  for (const long id : std::exchange(changed_, {})) {
    const auto task = tasks_.find(id);
    out_.keep.tasks.push_back(task->second);
    if (is_over(task->second.state)) tasks_.erase(task);
  }
  return std::move(out_);
}

void Queue::handle(const Arrived& event) {
  for (const Task& task : event.tasks) {
    last_id_ = std::max(last_id_, task.id);
    if (is_over(task.state)) continue;
    CHECK(tasks_.emplace(task.id, task).second);
    ++open_[task.spec.user];
    for (const Dependency& one : task.spec.after) {
      if (tasks_.contains(one.task)) followers_[one.task].push_back(task.id);
    }
    turns_.give(task, shares_.share(task.spec.user));
    if (task.state == State::waiting) turns_.wait(task);
    hours_.came(task);
  }
  for (const Task& task : event.tasks) {
    if (!is_over(task.state) && doomed(task, tasks_))
      settle(tasks_.at(task.id), State::skipped, "what it waits for ended otherwise");
  }
}

void Queue::handle(const Asked& event) {
  Task& task = tasks_.at(event.task);
  if (is_over(task.state)) return;  // it ended meanwhile
  const bool under_way = under_.contains(task.id);
  switch (event.what) {
    case Asked::What::cancel:
      if (under_way) return ask_to_end(task, "cancelled");
      return settle(task, State::cancelled, "cancelled");
    case Asked::What::hold:
      if (under_way) return;
      task.state = State::held;
      turns_.wait_no_more(task);
      if (planner_.waits(task.id)) planner_.remove(task.id);
      break;
    case Asked::What::release:
      if (task.state != State::held) return;
      task.state = State::waiting;
      turns_.wait(task);
      break;
  }
  changed_.insert(task.id);
}

void Queue::handle(const Began& event) {
  Task& task = tasks_.at(event.task);
  Under& under = under_.at(event.task);
  under.unknown = false;
  task.state = State::running;
  task.pid = event.pid;
  task.identity = event.identity;
  task.boot = event.boot;
  changed_.insert(task.id);
  // Somebody wanted its end while it was being started.
  if (under.stopped) out_.actions.push_back(StopTask{task.id, task.pid, StopSignal::terminate});
}

void Queue::handle(const NotBegun& event) {
  Task& task = tasks_.at(event.task);
  if (event.by_its_fault) {
    task.reason = event.reason;
    end_attempt(task, "failed", kUnknownStatus, true);
    return;
  }
  end_attempt(task, "", 0, false);  // its number is taken all the same
}

void Queue::handle(const Ended& event) {
  Task& task = tasks_.at(event.task);
  const int status = event.status.value_or(kUnknownStatus);
  if (event.at_ms > 0)
    task.ended_ms = std::clamp(event.at_ms, task.began_ms, std::max(task.began_ms, ms_of(now_)));
  if (event.status == 0) return end_attempt(task, "done", 0, false);
  if (!task.ending.empty()) {
    const std::string outcome = task.ending;
    const bool counts = outcome == "lost" ? task.attempts >= kMostLost : outcome == "timed out";
    return end_attempt(task, outcome, status, counts);
  }
  if (!event.status) task.reason = "its end is unknown: the machine or the queue went down";
  end_attempt(task, event.status ? "failed" : "lost", status, true);
}

void Queue::handle(const Saved& event) {
  const auto found = under_.find(event.task);
  if (found == under_.end() || !found->second.saving) return;
  found->second.saving.reset();
  ask_to_end(tasks_.at(event.task), "preempted");
}

void Queue::handle(const Changed& event) {
  const bool done = !event.error;
  const bool create = event.change.op == LiveOp::create;
  planner_.machine().changed(event.change, done);
  if (create != done) {
    devices_.erase(event.change.node);
    idle_since_.erase(event.change.node);
    if (create) planner_.machine().avoid(event.change.node, now_ + 10 * plan::kNanosInSecond);
  } else if (create) {
    devices_[event.change.node] = event.device;
    idle_since_[event.change.node] = now_;
  } else {
    planner_.machine().avoid(event.change.node,
                             now_ + 10 * plan::kNanosInSecond);  // it stays for now
  }
}

void Queue::handle(const Closed& event) {
  planner_.machine().close(event.node, event.closed);
  closed_[spots_[at(event.node)].gpu] += event.closed ? 1 : -1;
}

void Queue::handle(const Gone& event) {
  const bool idle = planner_.machine().idle(event.node);
  const auto id = planner_.machine().gone(event.node);
  if (idle) devices_.erase(event.node), idle_since_.erase(event.node);
  if (!id) return;
  Task& task = tasks_.at(*id);
  task.reason = "its instance is not there any more";
  ask_to_end(task, "lost");
}

// ---- ends

// Records the attempt; an empty outcome means that there was none.
void Queue::end_attempt(Task& task, const std::string& outcome, int status, bool counts) {
  if (task.ended_ms == 0) task.ended_ms = ms_of(now_);
  task.status = status;
  task.pid = 0;
  task.identity.clear();
  task.ending.clear();
  if (!outcome.empty()) {
    out_.keep.runs.push_back(
        {task.id, task.attempts, task.began_ms, task.ended_ms, status, outcome, task.places});
  }
  if (const std::vector<int> nodes = planner_.machine().nodes_of(task.id); !nodes.empty()) {
    const Spot& spot = spots_[at(nodes.front())];
    int columns = 0;
    for (const int node : nodes) columns += spots_[at(node)].columns;
    const auto took = static_cast<double>(task.ended_ms - task.began_ms) / 1e3;
    if (!outcome.empty())
      out_.keep.usage[task.spec.user] =
          shares_.add(task.spec.user, columns * std::max(0.0, took), now_);
    if (outcome == "done" && took > 0) {
      const TimeKey key{task.spec.user, name_of(task.spec), config_.models[at(spot.model)].name,
                        spot.gpcs};
      out_.keep.times[key] = times_.learn(key, took);
    }
    planner_.machine().ended(task.id);
    for (const int node : nodes)
      if (planner_.machine().idle(node))
        idle_since_[node] = now_;
      else
        devices_.erase(node);  // it is gone
  }
  running_[task.spec.user] -= task.spec.gpus;
  if (under_.at(task.id).saving) out_.actions.push_back(StopSave{task.id});
  under_.erase(task.id);
  if (outcome == "done") return settle(task, State::done, "");
  if (outcome == "cancelled") return settle(task, State::cancelled, "cancelled");
  if (outcome == "timed out") task.reason = "it took longer than its time limit";
  if (counts) ++task.failures;
  if (counts && task.failures > task.spec.retries) {
    return settle(task, State::failed,
                  task.reason.empty() ? fmt::format("ended with status {}", status) : task.reason);
  }
  task.state = State::waiting;
  turns_.wait(task);
  changed_.insert(task.id);
}

void Queue::settle(Task& task, State state, const std::string& reason) {
  task.state = state;
  task.reason = reason;
  if (task.ended_ms == 0) task.ended_ms = ms_of(now_);
  turns_.wait_no_more(task);
  turns_.forget(task.id);
  hours_.forget(task.id);
  if (planner_.waits(task.id)) planner_.remove(task.id);
  --open_[task.spec.user];
  changed_.insert(task.id);
  look_at_followers(task.id);
}

void Queue::look_at_followers(long id) {
  const auto found = followers_.find(id);
  if (found == followers_.end()) return;
  const std::vector<long> followers = std::move(found->second);
  followers_.erase(found);
  for (const long follower : followers) {
    Task& task = tasks_.at(follower);
    if (is_over(task.state) || under_.contains(follower) || !doomed(task, tasks_)) continue;
    settle(task, State::skipped, ended_otherwise(id, tasks_.at(id).state));
  }
}

void Queue::ask_to_end(Task& task, const std::string& outcome) {
  Under& under = under_.at(task.id);
  if (outcome == "cancelled" || task.ending.empty()) task.ending = outcome;
  changed_.insert(task.id);
  if (under.stopped) return;
  under.stopped = now_;
  if (task.pid > 0) out_.actions.push_back(StopTask{task.id, task.pid, StopSignal::terminate});
}

}  // namespace partita::queue
