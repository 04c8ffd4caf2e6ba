#include "plan/admission.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/index.h"

namespace partita::plan {
namespace {

// Orders a heap: the process that takes the next batch is on top.
bool later(const PoolProcess& a, const PoolProcess& b) {
  if (a.free != b.free) return a.free > b.free;
  if (a.full != b.full) return a.full > b.full;
  return a.batch != b.batch ? a.batch > b.batch : a.kind > b.kind;
}

// Requests of the full batches that this process starts by then.
long startable_by(const PoolProcess& process, Nanos until) {
  return process.free > until ? 0 : ((until - process.free) / process.full + 1) * process.batch;
}

// Behind a long queue: lets all processes start what they surely start before the last of them is
// reached, in one go, and returns how many are left. A guess that is too late changes nothing.
long skip_ahead(std::vector<PoolProcess>& processes, long ahead) {
  Nanos first = kForever, last = 0;
  for (const PoolProcess& process : processes) {
    first = std::min(first, process.free);
    last = std::max(last, process.free);
  }
  double rate = 0, work = static_cast<double>(ahead);
  for (const PoolProcess& process : processes) {
    const double each = static_cast<double>(process.batch) / static_cast<double>(process.full);
    rate += each;
    work += each * static_cast<double>(process.free - first) - process.batch;
  }
  if (work <= 0 || work / rate <= static_cast<double>(last - first)) return ahead;
  const Nanos until = first + static_cast<Nanos>(work / rate) - 1;
  long taken = 0;
  for (const PoolProcess& process : processes) taken += startable_by(process, until);
  if (taken >= ahead) return ahead;
  for (PoolProcess& process : processes)
    if (process.free <= until)
      process.free += ((until - process.free) / process.full + 1) * process.full;
  return ahead - taken;
}

}  // namespace

PredictedBatch predicted_batch(std::vector<PoolProcess> processes, long ahead) {
  CHECK(!processes.empty() && ahead >= 1);
  ahead = skip_ahead(processes, ahead);
  std::make_heap(processes.begin(), processes.end(), later);
  while (true) {
    std::pop_heap(processes.begin(), processes.end(), later);
    PoolProcess& process = processes.back();
    if (ahead <= process.batch) return {process.free, process.kind, static_cast<int>(ahead)};
    ahead -= process.batch;
    process.free += process.full;
    std::push_heap(processes.begin(), processes.end(), later);
  }
}

void RecentRate::arrived(Nanos now) { times_[seen_++ % kRemembered] = now; }

double RecentRate::per_nano(Nanos now) const {
  if (seen_ < 2) return 0;
  const Nanos oldest = seen_ < kRemembered ? times_[0] : times_[seen_ % kRemembered];
  const auto gaps = static_cast<double>(std::min(seen_, kRemembered) - 1);
  return gaps / static_cast<double>(std::max<Nanos>(1, now - oldest));
}

void Arrears::arrived(Nanos now, double carried, Nanos slack) {
  constexpr double kFewest = 32;  // of which the last dozens are no chance
  constexpr double kMost = 2;     // bounds, so that it ends when less comes
  bound_ = std::max(kFewest, carried * static_cast<double>(slack));
  behind_ -= carried * static_cast<double>(now - last_);
  behind_ = std::min(std::max(0.0, behind_) + 1, kMost * bound_);
  last_ = now;
}

int predicted_size(const PredictedBatch& batch, int full, Nanos now, const Pressure& pressure) {
  const double joining =
      pressure.overload ? std::ceil(pressure.comes * static_cast<double>(batch.start - now)) : 0;
  return static_cast<int>(std::min<double>(full, batch.place + joining));
}

bool in_time(Nanos finish, Nanos deadline, Nanos slo, const Pressure& pressure) {
  return finish <= deadline - (pressure.overload ? usual_margin(slo) : 0);
}

WayAhead way_ahead(const PipelineGraph& graph, const std::vector<std::optional<Foreseen>>& steps,
                   Nanos now) {
  WayAhead ahead{std::vector<Nanos>(steps.size(), now), now};
  for (const std::size_t s : graph.order) {
    if (!steps[s]) continue;
    Nanos comes = now;
    for (const std::size_t before : graph.after[s]) comes = std::max(comes, ahead.ends[before]);
    ahead.ends[s] = std::max(now + steps[s]->until, comes + steps[s]->batch);
    ahead.overload = ahead.overload || steps[s]->overload;
    ahead.end = std::max(ahead.end, ahead.ends[s]);
  }
  return ahead;
}

int reckoned_requests(const PipelineGraph& graph, std::size_t step) {
  return std::max(1, static_cast<int>(std::ceil(graph.requests[step])));
}

Admission::Admission(const DispatchPolicy& policy, int queue_limit) : queue_limit_(queue_limit) {
  CHECK(policy.slo && !policy.members.empty() && queue_limit > 0);
  slo_ = *policy.slo;
  shortest_ = kForever;
  for (const PoolMember& member : policy.members) {
    const profile::BatchCurve::Step& full = member.curve.steps.back();
    const Nanos time = execution_time(full.latency);
    kinds_.push_back({time, full.batch, member.curve});
    idle_.push_back(member.processes);
    idle_batches_ += static_cast<long>(full.batch) * member.processes;
    shortest_ = std::min(shortest_, time);
    longest_ = std::max(longest_, time);
    largest_ = std::max(largest_, full.batch);
    all_batches_ += static_cast<long>(full.batch) * member.processes;
    carried_ += static_cast<double>(full.batch) * member.processes / static_cast<double>(time);
  }
}

void Admission::forget_ended(Nanos now) {
  for (; head_ < busy_.size() && busy_[head_].end <= now; ++head_) {
    const int member = busy_[head_].member;
    ++idle_[at(member)];
    idle_batches_ += kinds_[at(member)].batch;
  }
  if (head_ * 2 <= busy_.size()) return;
  busy_.erase(busy_.begin(), busy_.begin() + static_cast<std::ptrdiff_t>(head_));
  head_ = 0;
}

void Admission::start(int member, Nanos now, Nanos duration) {
  forget_ended(now);
  CHECK(idle_[at(member)] > 0);
  --idle_[at(member)];
  idle_batches_ -= kinds_[at(member)].batch;
  const Busy busy{now + duration, member};
  busy_.push_back(busy);  // most often where it belongs
  for (std::size_t i = busy_.size() - 1; i > head_ && busy_[i - 1].end > busy.end; --i)
    std::swap(busy_[i - 1], busy_[i]);
}

// Requests of all full batches that start by then, on whatever process.
long Admission::startable(Nanos now, Nanos until) const {
  if (until < now) return 0;
  long sum = 0;
  for (std::size_t member = 0; member < kinds_.size(); ++member) {
    const Kind& kind = kinds_[member];
    if (idle_[member] > 0) sum += idle_[member] * startable_by({now, kind.full, kind.batch}, until);
  }
  for (std::size_t i = head_; i < busy_.size() && busy_[i].end <= until; ++i) {
    const Kind& kind = kinds_[at(busy_[i].member)];
    sum += startable_by({busy_[i].end, kind.full, kind.batch, 0}, until);
  }
  return sum;
}

std::vector<PoolProcess> Admission::processes(Nanos now) const {
  std::vector<PoolProcess> processes;
  for (std::size_t member = 0; member < kinds_.size(); ++member) {
    const Kind& kind = kinds_[member];
    processes.insert(processes.end(), at(idle_[member]),
                     {now, kind.full, kind.batch, static_cast<int>(member)});
  }
  for (std::size_t i = head_; i < busy_.size(); ++i) {
    const Kind& kind = kinds_[at(busy_[i].member)];
    processes.push_back({busy_[i].end, kind.full, kind.batch, busy_[i].member});
  }
  return processes;
}

void Admission::held_off(Nanos now, int requests) {
  for (int i = 0; i < requests; ++i) {
    rate_.arrived(now);
    arrears_.arrived(now, carried_, slo_ - longest_);
  }
}

Foreseen Admission::foresee(Nanos now, long ahead, int requests) const {
  Nanos least = kForever;
  for (const Kind& kind : kinds_)
    least = std::min(least, execution_time(kind.curve.latency(std::min(requests, kind.batch))));
  const Pressure pressure{rate_.per_nano(now), arrears_.lasts()};
  std::vector<PoolProcess> all = processes(now);
  for (PoolProcess& one : all) one.free = std::max(one.free, now);
  const PredictedBatch batch = predicted_batch(std::move(all), ahead + requests);
  const Kind& kind = kinds_[at(batch.kind)];
  const int size = predicted_size(batch, kind.batch, now, pressure);
  return {batch.start + execution_time(kind.curve.latency(size)) - now, least, pressure.overload};
}

bool Admission::admits(Nanos now, int queued, std::optional<Nanos> done_by) {
  rate_.arrived(now);
  arrears_.arrived(now, carried_, slo_ - longest_);
  if (queued >= queue_limit_) return false;
  if (head_ < busy_.size() && busy_[head_].end <= now) forget_ended(now);
  const long ahead = queued + 1L;
  const Nanos deadline = done_by.value_or(now + slo_);
  const Nanos patience = deadline - now - usual_margin(slo_);  // until it should be done
  // Whoever starts by then is done in time in the longest batch, too.
  const Nanos sure = now + patience - longest_;
  if (sure >= now) {
    long first = idle_batches_;  // of each process alone
    for (std::size_t i = head_;
         first < ahead && ahead <= all_batches_ && i < busy_.size() && busy_[i].end <= sure; ++i)
      first += kinds_[at(busy_[i].member)].batch;
    if (first >= ahead || startable(now, sure) >= ahead) return true;
  }
  const Pressure pressure{rate_.per_nano(now), arrears_.lasts()};
  if (pressure.overload) {
    // Whoever starts after that starts in a full batch, and is late in any.
    const auto filled = static_cast<Nanos>(largest_ / pressure.comes) + 1;
    if (startable(now, now + std::max(filled, patience - shortest_)) < ahead) return false;
  }
  const PredictedBatch batch = predicted_batch(processes(now), ahead);
  const Kind& kind = kinds_[at(batch.kind)];
  const int size = predicted_size(batch, kind.batch, now, pressure);
  const Nanos finish = batch.start + execution_time(kind.curve.latency(size));
  return in_time(finish, deadline, slo_, pressure);
}

}  // namespace partita::plan
