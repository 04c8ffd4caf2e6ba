#include "plan/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::plan {
namespace {

constexpr Nanos kMostMargin = 1'000'000;
constexpr Nanos kMarginShare = 20;

Nanos saturated_sum(Nanos time, Nanos wait) {
  return time > kForever - wait ? kForever : time + wait;
}

// Requests per nanosecond of full batches on all processes.
double full_rate(const PoolMember& member) {
  return static_cast<double>(member.curve.max_batch()) * member.processes /
         static_cast<double>(execution_time(member.curve.steps.back().latency));
}

// Rounded up, so that equal batches paced in a row never find all processes still busy.
Nanos pace_of(Nanos duration, double share_per_process) {
  return static_cast<Nanos>(std::ceil(static_cast<double>(duration) * share_per_process - 1e-6));
}

}  // namespace

Nanos execution_time(Millis latency) {
  return std::max<Nanos>(1, std::llround(latency.value * 1e6));
}

Nanos usual_margin(Nanos slo) { return std::min(kMostMargin, slo / kMarginShare); }

DispatchPolicy paced_policy(profile::BatchCurve curve, int processes) {
  return {.members = {{std::move(curve), processes}}, .slo = {}};
}

DispatchPolicy pooled_policy(std::vector<PoolMember> members, Nanos slo) {
  return {.members = std::move(members), .slo = slo, .margin = usual_margin(slo)};
}

Dispatcher::Dispatcher(DispatchPolicy policy) : policy_(std::move(policy)) {
  CHECK(policy_.max_wait >= 0 && policy_.margin >= 0);
  set_groups();
}

void Dispatcher::set_groups() {
  const std::vector<PoolMember>& members = policy_.members;
  CHECK(!members.empty());
  groups_.clear();
  double pool_rate = 0;
  for (const PoolMember& member : members) {
    CHECK(member.processes >= 1 && !member.curve.steps.empty());
    pool_rate += full_rate(member);
  }
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return members[a].curve.steps.back().latency < members[b].curve.steps.back().latency;
  });
  group_of_.assign(members.size(), 0);
  const PoolMember* previous = nullptr;
  for (const std::size_t m : order) {
    if (!previous || *previous != members[m]) add_group(members[m], pool_rate);
    previous = &members[m];
    group_of_[m] = groups_.size() - 1;
  }
  // Processes of a group are taken in turn, each member's first one before anybody's second.
  int most = 0;
  for (const PoolMember& member : members) most = std::max(most, member.processes);
  for (int round = 0; round < most; ++round)
    for (std::size_t m = 0; m < members.size(); ++m)
      if (round < members[m].processes) groups_[group_of_[m]].idle.push_back(static_cast<int>(m));
}

void Dispatcher::add_group(const PoolMember& member, double pool_rate) {
  Group group;
  const double share = full_rate(member) / member.processes / pool_rate;
  group.durations.reserve(at(member.curve.max_batch()));
  for (const profile::BatchCurve::Step& step : member.curve.steps)
    group.durations.resize(at(step.batch), execution_time(step.latency));
  for (const Nanos duration : group.durations) group.paces.push_back(pace_of(duration, share));
  groups_.push_back(std::move(group));
}

void Dispatcher::change_members(std::vector<PoolMember> members, const std::vector<int>& busy) {
  CHECK(busy.size() == members.size());
  policy_.members = std::move(members);
  set_groups();
  running_ = 0;
  for (std::size_t m = 0; m < busy.size(); ++m) {
    std::vector<int>& idle = groups_[group_of_[m]].idle;
    for (int taken = 0; taken < busy[m]; ++taken) {
      const auto process = std::find(idle.begin(), idle.end(), static_cast<int>(m));
      CHECK(process != idle.end());
      idle.erase(process);
      ++running_;
    }
  }
}

void Dispatcher::withdraw(std::size_t position) {
  CHECK(position < arrivals_.size() - head_);
  arrivals_.erase(arrivals_.begin() + static_cast<std::ptrdiff_t>(head_ + position));
}

void Dispatcher::arrive_anywhere(Nanos time) {
  // Forget what has been dispatched once it is half of the buffer: constant cost per request on
  // average.
  if (head_ * 2 > arrivals_.size()) {
    arrivals_.erase(arrivals_.begin(), arrivals_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
    last_ = 0;
  }
  if (head_ == arrivals_.size() || arrivals_.back() <= time) {
    arrivals_.push_back(time);
    return;
  }
  const auto first = arrivals_.begin() + static_cast<std::ptrdiff_t>(head_);
  arrivals_.insert(std::upper_bound(first, arrivals_.end(), time), time);
}

void Dispatcher::arrive(std::span<const Nanos> times) {
  if (times.empty()) return;
  arrive(times.front());  // those behind it have room, and come after what waits
  if (arrivals_.back() <= times.front())
    arrivals_.insert(arrivals_.end(), times.begin() + 1, times.end());
  else
    for (const Nanos time : times.subspan(1)) arrive(time);
}

void Dispatcher::complete(int member) {
  CHECK(running_ > 0);
  --running_;
  groups_[group_of_[at(member)]].idle.push_back(member);
}

void Dispatcher::drain() { policy_.max_wait = 0; }

[[gnu::always_inline]] inline Dispatcher::Group* Dispatcher::idle_group() {
  for (Group& group : groups_)
    if (group.first_idle < group.idle.size()) return &group;
  return nullptr;
}

// When the waiting requests may start on that group if nothing else happens.
[[gnu::always_inline]] inline Nanos Dispatcher::start_of(const Group& group, Nanos now) const {
  const auto waiting = arrivals_.size() - head_;
  const std::size_t limit = group.durations.size();
  const Nanos paced = policy_.paced ? ready_at_ : INT64_MIN;
  if (policy_.slo) {
    if (waiting >= limit) return now;
    const Nanos slack = *policy_.slo - group.durations[waiting - 1] - policy_.margin;
    return std::min(paced, saturated_sum(arrivals_[head_], std::max<Nanos>(0, slack)));
  }
  if (waiting >= limit || policy_.max_wait == 0) return paced;
  return std::max(paced, saturated_sum(arrivals_[head_], policy_.max_wait));
}

Dispatcher::Decision Dispatcher::step(Nanos now) {
  Group* group = queued() == 0 ? nullptr : idle_group();
  if (!group) {  // an arrival or a completion comes first
    awaits_pace_ = false;
    return {};
  }
  const Nanos start = start_of(*group, now);
  if (start > now) {
    awaits_pace_ = start == ready_at_;
    return {.wake_at = start};
  }
  const std::size_t batch = std::min(arrivals_.size() - head_, group->durations.size());
  const int member = group->idle[group->first_idle++];
  if (group->first_idle * 2 > group->idle.size()) {
    group->idle.erase(group->idle.begin(),
                      group->idle.begin() + static_cast<std::ptrdiff_t>(group->first_idle));
    group->first_idle = 0;
  }
  last_ = batch;
  head_ += batch;
  ++running_;
  const Nanos pace = group->paces[batch - 1];
  const Nanos due = awaits_pace_ && ready_at_ < now ? std::max(ready_at_, now - pace) : now;
  ready_at_ = due + pace;
  awaits_pace_ = false;
  return {static_cast<int>(batch), member, group->durations[batch - 1], kForever};
}

}  // namespace partita::plan
