#include "sim/service_world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/index.h"

namespace partita::sim {
namespace {

enum ServiceEvent : std::uint32_t { kArrival, kDispatch, kCompletion, kWake, kDrain, kRefusal };

}  // namespace

ServiceOutcome ServiceWorld::run(ServiceSpec spec) {
  reset(std::move(spec));
  while (arrival_ || !events_.empty()) {
    if (arrival_ && events_.before_all(*arrival_))
      handle(Event(*arrival_));
    else
      handle(events_.pop());
  }
  return result();
}

void ServiceWorld::reset(ServiceSpec spec) {
  CHECK(0 <= spec.warmup && spec.warmup < spec.end);
  spec_ = std::move(spec);
  events_.clear();
  log_ = {};
  latencies_.clear();
  queues_.clear();
  split_.clear();
  outcome_ = {};
  latency_sum_ = 0;
  bool waits = false;
  std::vector<double> nanos_per_request;
  double throughput = 0;
  for (QueueSpec& queue : spec_.queues) {
    CHECK(queue.throughput.value > 0);
    waits = waits || queue.policy.max_wait > 0;
    nanos_per_request.push_back(kNanosPerSecond / queue.throughput.value);
    split_.push_back(throughput += queue.throughput.value);
    queues_.push_back({plan::Dispatcher(std::move(queue.policy))});
    const plan::DispatchPolicy& policy = queues_.back().dispatcher.policy();
    if (spec_.queue_limit && policy.slo)
      queues_.back().admission.emplace(policy, *spec_.queue_limit);
    const auto& members = policy.members;
    for (const plan::PoolMember& member : members) queues_.back().processes += member.processes;
    queues_.back().busy.resize(members.size());
  }
  router_ = Router(nanos_per_request);
  schedule_arrival();
  if (waits) events_.push({.time = spec_.end, .kind = kDrain});
}

void ServiceWorld::schedule_arrival() {
  const Nanos next = spec_.arrivals.next();
  arrival_.reset();
  if (next < spec_.end) arrival_ = events_.numbered({.time = next, .kind = kArrival});
}

// The completion of a batch names its queue as the subject and keeps the member and the counted
// requests in `count`.
constexpr std::int64_t kMostCounted = std::int64_t{1} << 32;

void ServiceWorld::handle(const Event& event) {
  const std::size_t index = event.subject;
  switch (static_cast<ServiceEvent>(event.kind)) {
    case kArrival:
      join(event.time);
      schedule_arrival();
      return;
    case kCompletion:
      log_.record(event.time, kCompletion, event.subject, event.count);
      ++outcome_.events;
      outcome_.completed += event.count % kMostCounted;
      queues_[index].dispatcher.complete(static_cast<int>(event.count / kMostCounted));
      advance(index, event.time);
      return;
    case kWake:
      if (queues_[index].asked == event.count) queues_[index].asked = kForever;
      advance(index, event.time);
      return;
    case kDrain:
      for (std::size_t i = 0; i < queues_.size(); ++i) {
        queues_[i].dispatcher.drain();
        advance(i, event.time);
      }
      return;
    case kDispatch:
    case kRefusal:
      break;  // happen within other events
  }
  CHECK(false);
}

std::size_t ServiceWorld::choose(Nanos now) {
  if (queues_.size() == 1) return 0;
  if (spec_.routing == Routing::least_work) return router_.choose(now);
  const double point = spec_.rng.uniform() * split_.back();
  const auto found = std::upper_bound(split_.begin(), split_.end() - 1, point);
  return static_cast<std::size_t>(found - split_.begin());
}

// A request arrives, joins a queue and perhaps starts at once.
void ServiceWorld::join(Nanos now) {
  ++outcome_.events;
  if (now >= spec_.warmup) ++outcome_.offered;
  if (spec_.keep_answers) outcome_.answers.push_back({now});
  if (queues_.empty()) {
    log_.record(now, kArrival, 0, 0);
    return;
  }
  const std::size_t index = choose(now);
  Queue& queue = queues_[index];
  if (queue.admission && !queue.admission->admits(now, queue.dispatcher.queued()))
    return refuse(index, now);
  log_.record(now, kArrival, static_cast<std::uint32_t>(index), 1);
  queue.dispatcher.arrive(now);
  if (spec_.keep_answers) queue.unanswered.push_back(outcome_.answers.size() - 1);
  // With all processes busy nothing starts before one ends; only the router looks at queues.
  if (queues_.size() > 1 || queue.dispatcher.running() < queue.processes) advance(index, now);
}

void ServiceWorld::refuse(std::size_t index, Nanos now) {
  log_.record(now, kRefusal, static_cast<std::uint32_t>(index), 1);
  if (now >= spec_.warmup) ++outcome_.refused;
}

// The oldest request of the queue is done.
void ServiceWorld::answer(Queue& queue, Nanos latency) {
  outcome_.answers[queue.unanswered.front()].latency = latency;
  queue.unanswered.pop_front();
}

// Starts every batch that may start now and sees to it that the next one does when it may.
void ServiceWorld::advance(std::size_t index, Nanos now) {
  Queue& queue = queues_[index];
  plan::Dispatcher::Decision decision = queue.dispatcher.step(now);
  for (; decision.dispatch > 0; decision = queue.dispatcher.step(now)) {
    dispatch(index, now, decision);
  }
  if (queues_.size() > 1 && spec_.routing == Routing::least_work)
    router_.update(index, now, queue.entry_free, queue.dispatcher.queued());
  if (decision.wake_at >= queue.asked) return;
  queue.asked = decision.wake_at;
  Nanos wake = decision.wake_at;
  if (spec_.mean_lateness > 0)
    wake += static_cast<Nanos>(spec_.rng.exponential() * static_cast<double>(spec_.mean_lateness));
  events_.push({wake, 0, kWake, static_cast<std::uint32_t>(index), queue.asked});
}

// Accounts for the batch that `index` has just dispatched: its end is known from here on.
void ServiceWorld::dispatch(std::size_t index, Nanos now,
                            const plan::Dispatcher::Decision& decision) {
  Queue& queue = queues_[index];
  const auto subject = static_cast<std::uint32_t>(index);
  const std::span<const Nanos> batch = queue.dispatcher.dispatched();
  log_.record(now, kDispatch, subject, static_cast<long>(batch.size()));
  ++outcome_.events;

  const Nanos end = now + decision.duration;
  long counted = 0;
  if (queue.admission) queue.admission->start(decision.member, now, decision.duration);
  for (const Nanos arrival : batch) {
    const Nanos latency = end - arrival;
    if (spec_.keep_answers) answer(queue, latency);
    if (arrival < spec_.warmup) continue;
    latencies_.add(latency);
    latency_sum_ += static_cast<double>(latency);
    if (latency <= spec_.slo) ++outcome_.within_slo;
    ++counted;
  }
  queue.busy[at(decision.member)] +=
      std::max<Nanos>(0, std::min(end, spec_.end) - std::max(now, spec_.warmup));
  queue.entry_free = std::max(queue.entry_free, now) + decision.duration / queue.processes;
  events_.push({end, 0, kCompletion, subject, decision.member * kMostCounted + counted});
}

ServiceOutcome ServiceWorld::result() {
  const auto window = static_cast<double>(spec_.end - spec_.warmup);
  for (const Queue& queue : queues_) {
    CHECK(queue.dispatcher.queued() == 0 && queue.dispatcher.running() == 0);
    std::vector<double>& activity = outcome_.activity.emplace_back();
    for (std::size_t m = 0; m < queue.busy.size(); ++m)
      activity.push_back(static_cast<double>(queue.busy[m]) /
                         (window * queue.dispatcher.policy().members[m].processes));
  }
  if (latencies_.count() > 0) {
    outcome_.mean_latency = latency_sum_ / static_cast<double>(latencies_.count());
  }
  outcome_.p50 = latencies_.percentile(50);
  outcome_.p95 = latencies_.percentile(95);
  outcome_.p99 = latencies_.percentile(99);
  outcome_.log_hash = log_.hash();
  return std::move(outcome_);
}

}  // namespace partita::sim
