// What runs next: the brain's side that goes to the planner.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"
#include "queue/queue.h"

namespace partita::queue {
namespace {

constexpr Nanos kMilliNs = 1'000'000;
constexpr double kNanosPerSecond = 1e9;
// Between a moment at which a task that may wait has to begin and its deadline lies what it takes,
// a tenth more, time to make room, and the longest of what else there is: it may just have begun.
constexpr double kSpareShare = 0.1, kRoomS = 60;
constexpr Nanos kWeighedEvery = 60 * plan::kNanosInSecond;

Nanos as_nanos(double time_s) { return std::llround(std::min(time_s, 1e9) * 1e9); }

// All that it waits for runs or is planned.
bool may_run(const Task& task, const std::map<long, Task>& tasks,
             const planners::batch::LivePlanner& planner) {
  return std::ranges::all_of(task.spec.after, [&](const Dependency& one) {
    const auto before = tasks.find(one.task);
    if (before == tasks.end() || is_over(before->second.state)) return true;
    return planner.waits(one.task) || planner.machine().runs(one.task);
  });
}

std::vector<long> waiting_ids(const planners::batch::LivePlanner& planner) {
  std::vector<long> ids;
  for (const auto& [id, task] : planner.waiting()) ids.push_back(id);
  return ids;
}

}  // namespace

planners::batch::LiveTask Queue::live(const Task& task) const {
  planners::batch::LiveTask live;
  live.id = task.id;
  live.weight = std::exp2(task.spec.priority) * shares_.weight(task.spec.user, now_);
  if (task.spec.deadline_s)
    live.deadline = task.submitted_ms * kMilliNs + as_nanos(*task.spec.deadline_s);
  live.rank = turns_.of(task.id);
  live.since = task.submitted_ms * kMilliNs;
  live.cpus = task.spec.cpus;
  live.ram_gib = task.spec.ram_gib;
  live.width = task.spec.gpus;
  double cv = 0;
  for (const hw::GpuModel& model : config_.models) {
    const Times::Estimate estimate = times_.estimate(task.spec, model);
    live.times.push_back(estimate.times);
    std::uint32_t& may = live.profiles.emplace_back(0);
    for (const int profile : profiles_for(task.spec, model)) may |= 1U << profile;
    cv = std::max(cv, estimate.cv);
    if (!task.spec.time_limit_s) continue;
    for (Nanos& time : live.times.back().by_gpcs)
      time = std::min(time, as_nanos(*task.spec.time_limit_s));
  }
  live.cv = cv;
  for (const Dependency& one : task.spec.after) {
    const auto before = tasks_.find(one.task);
    if (before != tasks_.end() && !is_over(before->second.state)) live.after.push_back(one.task);
  }
  return live;
}

// Those of waiting tasks that are within quotas, and whose predecessors run or are planned. Twice:
// what comes after what was offered just now.
void Queue::offer() {
  for (int round = 0; round < (followers_.empty() ? 1 : 2); ++round) {
    std::map<std::string, int> taken = running_;
    std::set<long> offered;
    std::set<std::string> full;  // users whose quota is
    using Go = Turns::Go;
    turns_.each([&](long id) {
      const Task& task = tasks_.at(id);
      const std::string& user = task.spec.user;
      const Quota* quota = quota_of(config_, user);
      int& has = taken[user];
      if (quota != nullptr && has + task.spec.gpus > quota->running) {
        full.insert(user);
        return has >= quota->running ? Go::past_user : Go::on;
      }
      if (hours_.holds(id) || !may_run(task, tasks_, planner_)) return Go::on;
      has += task.spec.gpus;
      offered.insert(task.id);
      if (!planner_.waits(task.id)) planner_.add(live(task));
      return offered.size() < 2 * at(config_.planning.window) ? Go::on : Go::no_further;
    });
    for (const long id : waiting_ids(planner_)) {
      const Task& task = tasks_.at(id);
      if (offered.contains(id)) continue;
      if (full.contains(task.spec.user) || !may_run(task, tasks_, planner_)) planner_.remove(id);
    }
  }
  if (now_ - weighed_ < kWeighedEvery) return;
  weighed_ = now_;
  for (const long id : waiting_ids(planner_)) planner_.change(live(tasks_.at(id)));
}

std::string why_waiting(const Queue& queue, const Task& task, Nanos now) {
  if (task.state == State::held) return "held";
  if (task.state != State::waiting) return "";
  const auto& waiting = queue.planner().waiting();
  if (const auto planned = waiting.find(task.id); planned != waiting.end())
    return queue.planner().machine().fits_somewhere(planned->second)
               ? ""
               : "others have every place that it fits on: services, batches or leases";
  if (const auto later = queue.hours().later(task.id))
    return queue.hours().why(*later, static_cast<double>(now) / kNanosPerSecond);
  for (const Dependency& one : task.spec.after) {
    const auto before = queue.tasks().find(one.task);
    if (before != queue.tasks().end() && !is_over(before->second.state))
      return fmt::format("waits for task {}", one.task);
  }
  return "its user has as many tasks running as they may, or many wait before it";
}

// What may wait for cheap hours does, as long as all that is known ends in time. Where more waits
// than is planned, nobody waits for hours: throughput comes first.
bool Queue::choose_hours() {
  if (hours_.held().empty()) return false;
  const auto seconds = [](Nanos time) { return static_cast<double>(time) / kNanosPerSecond; };
  planners::batch::CheapHours look{.now_s = seconds(now_), .free_s = seconds(now_)};
  double longest_s = 0;  // of what runs and waits besides
  bool known = true;
  for (const auto& [id, task] : planner_.waiting()) {
    const auto expected = planner_.expected(id);
    known = known && expected;
    if (!expected) continue;
    look.free_s = std::max(look.free_s, seconds(expected->end));
    longest_s = std::max(longest_s, seconds(expected->end - expected->begin));
  }
  for (const auto& [id, under] : under_) {
    if (!planner_.machine().runs(id)) continue;
    const Nanos end = planner_.machine().expected_end(id, now_);
    look.free_s = std::max(look.free_s, seconds(end));
    longest_s = std::max(longest_s, seconds(end - tasks_.at(id).began_ms * kMilliNs));
  }
  const auto others_have = [&](int gpu) {
    const auto closed = closed_.find(gpu);
    return closed != closed_.end() && closed->second > 0;
  };
  look.gpus = static_cast<int>(std::ssize(config_.indices) -
                               std::ranges::count_if(config_.indices, others_have));
  std::vector<long> hurried;
  for (const long id : hours_.held()) {
    const Task& task = tasks_.at(id);
    if (task.state != State::waiting || !may_run(task, tasks_, planner_)) continue;
    const planners::batch::LiveTask own = live(task);
    const auto fast = fastest(own, config_.models);
    const bool measured = std::ranges::any_of(config_.models, [&](const hw::GpuModel& model) {
      return times_.estimate(task.spec, model).measured;
    });
    if (!known || !fast || !measured) {
      hurried.push_back(id);
      continue;
    }
    const double latest_s = seconds(own.deadline.value_or(now_)) -
                            fast->length_s * (1 + kSpareShare) - kRoomS - longest_s;
    if (latest_s <= std::max(look.now_s, look.free_s)) {
      hurried.push_back(id);
      continue;
    }
    look.tasks.push_back({id, latest_s, fast->length_s, fast->slices, fast->profile,
                          task.spec.gpus, fast->per_gpu});
  }
  return hours_.choose(look, hurried);
}

void Queue::decide() {
  const planners::batch::Decisions decisions = planner_.decide(now_);
  for (const auto& [id, nodes] : decisions.starts) start(id, nodes);
  for (const auto& change : decisions.changes) {
    idle_since_.erase(change.node);
    if (change.op == LiveOp::create) {
      out_.actions.push_back(Create{change.node});
    } else {
      out_.actions.push_back(Destroy{change.node});
    }
  }
  if (decisions.wake) out_.wake_at(*decisions.wake);
}

void Queue::start(long id, const std::vector<int>& nodes) {
  Task& task = tasks_.at(id);
  turns_.began(task);
  running_[task.spec.user] += task.spec.gpus;
  ++task.attempts;
  task.state = State::starting;
  task.began_ms = now_ / kMilliNs;
  task.ended_ms = 0;
  task.reason.clear();
  task.places.clear();
  for (const int node : nodes) {
    idle_since_.erase(node);
    task.places.push_back(place_of(spots_, devices_, node));
  }
  under_[id] = {};
  changed_.insert(task.id);
  out_.actions.push_back(StartTask{task});
}

void Queue::watch_limits() {
  for (auto& [id, under] : under_) {
    Task& task = tasks_.at(id);
    if (task.state != State::running || under.unknown) continue;
    if (task.spec.time_limit_s && !under.stopped) {
      const Nanos end = task.began_ms * kMilliNs + as_nanos(*task.spec.time_limit_s);
      if (now_ >= end) {
        ask_to_end(task, "timed out");
      } else {
        out_.wake_at(end);
      }
    }
    if (under.saving && now_ >= *under.saving + config_.checkpoint_limit) {
      under.saving.reset();
      out_.actions.push_back(StopSave{id});
      ask_to_end(task, "preempted");
    } else if (under.saving) {
      out_.wake_at(*under.saving + config_.checkpoint_limit);
    }
    if (!under.stopped || under.killed) continue;
    const Nanos kill = *under.stopped + config_.grace;
    if (now_ >= kill) {
      under.killed = true;
      out_.actions.push_back(StopTask{id, task.pid, StopSignal::kill});
    } else {
      out_.wake_at(kill);
    }
  }
}

// A task of higher priority that has waited long enough ends the preemptible one that began last
// of those on an instance that it fits.
void Queue::preempt() {
  const bool under_way = std::ranges::any_of(
      under_, [](const auto& one) { return one.second.saving || one.second.stopped; });
  if (under_way) return;  // one at a time: what becomes free is planned first
  const auto victim_for = [&](const Task& urgent) {
    Task* victim = nullptr;
    for (const auto& [other, under] : under_) {
      Task& task = tasks_.at(other);
      if (task.state != State::running || under.unknown || !task.spec.preemptible ||
          task.spec.priority >= urgent.spec.priority)
        continue;
      const std::vector<int>& nodes = planner_.machine().nodes_of(other);
      if (nodes.empty() || !planner_.fits(urgent.id, nodes.front())) continue;
      if (victim == nullptr || task.began_ms > victim->began_ms) victim = &task;
    }
    return victim;
  };
  using Go = Turns::Go;
  turns_.each([&](long id) {
    const Task& urgent = tasks_.at(id);
    if (urgent.spec.priority <= 0) return Go::no_further;
    if (!planner_.waits(id)) return Go::on;
    const Nanos patient = urgent.submitted_ms * kMilliNs + config_.patience;
    if (now_ < patient) out_.wake_at(patient);
    Task* const victim = now_ < patient ? nullptr : victim_for(urgent);
    if (victim == nullptr) return Go::on;
    if (victim->spec.checkpoint.empty()) {
      ask_to_end(*victim, "preempted");
    } else {
      under_.at(victim->id).saving = now_;
      out_.actions.push_back(SaveTask{*victim});
    }
    return Go::no_further;
  });
}

void Queue::return_idle() {
  if (!planner_.waiting().empty()) return;
  for (auto it = idle_since_.begin(); it != idle_since_.end();) {
    const auto [node, since] = *it;
    ++it;
    if (now_ < since + config_.idle_return) {
      out_.wake_at(since + config_.idle_return);
      continue;
    }
    if (!planner_.machine().retire(node, now_)) continue;
    idle_since_.erase(node);
    out_.actions.push_back(Destroy{node});
  }
}

}  // namespace partita::queue
