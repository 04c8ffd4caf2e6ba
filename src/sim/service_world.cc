#include "sim/service_world.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace partita::sim {
namespace {

enum ServiceEvent : std::uint32_t { kArrival, kDispatch, kCompletion, kWake, kDrain };

}  // namespace

ServiceOutcome ServiceWorld::run(ServiceSpec spec) {
  reset(std::move(spec));
  while (!queue_.empty()) handle(queue_.pop());
  return result();
}

void ServiceWorld::reset(ServiceSpec spec) {
  CHECK(0 <= spec.warmup && spec.warmup < spec.end);
  spec_ = std::move(spec);
  queue_.clear();
  log_ = {};
  latencies_.clear();
  segments_.clear();
  outcome_ = {};
  latency_sum_ = 0;
  bool waits = false;
  std::vector<double> nanos_per_request;
  for (const SegmentSpec& segment : spec_.segments) {
    CHECK(segment.throughput.value > 0);
    segments_.push_back({plan::Batcher(segment.policy)});
    nanos_per_request.push_back(kNanosPerSecond / segment.throughput.value);
    waits = waits || segment.policy.max_wait > 0;
  }
  router_ = Router(nanos_per_request);
  schedule_arrival();
  if (waits) queue_.push({.time = spec_.end, .kind = kDrain});
}

void ServiceWorld::schedule_arrival() {
  const Nanos next = spec_.arrivals.next();
  if (next < spec_.end) queue_.push({.time = next, .kind = kArrival});
}

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
      outcome_.completed += event.count;
      segments_[index].batcher.complete(event.time);
      advance(index, event.time);
      return;
    case kWake:
      if (segments_[index].wake == event.time) segments_[index].wake = kForever;
      advance(index, event.time);
      return;
    case kDrain:
      for (std::size_t i = 0; i < segments_.size(); ++i) {
        segments_[i].batcher.drain();
        advance(i, event.time);
      }
      return;
    case kDispatch:
      break;  // happens within other events
  }
  CHECK(false);
}

// A request arrives, joins a segment and perhaps starts at once.
void ServiceWorld::join(Nanos now) {
  ++outcome_.events;
  if (now >= spec_.warmup) ++outcome_.offered;
  if (segments_.empty()) {
    log_.record(now, kArrival, 0, 0);
    return;
  }
  const std::size_t index = router_.choose(now);
  log_.record(now, kArrival, static_cast<std::uint32_t>(index), 1);
  segments_[index].batcher.arrive(now);
  advance(index, now);
}

// Starts every batch that may start now and sees to it that the next one does when it may.
void ServiceWorld::advance(std::size_t index, Nanos now) {
  Segment& segment = segments_[index];
  plan::Batcher::Decision decision = segment.batcher.step(now);
  for (; decision.dispatch > 0; decision = segment.batcher.step(now)) {
    dispatch(index, now, decision.duration);
  }
  router_.update(index, now, segment.entry_free, segment.batcher.queued());
  if (decision.wake_at < segment.wake) {
    segment.wake = decision.wake_at;
    queue_.push({decision.wake_at, 0, kWake, static_cast<std::uint32_t>(index), 0});
  }
}

// Accounts for the batch that `index` has just dispatched: its end is known from here on.
void ServiceWorld::dispatch(std::size_t index, Nanos now, Nanos duration) {
  Segment& segment = segments_[index];
  const auto subject = static_cast<std::uint32_t>(index);
  const std::span<const Nanos> batch = segment.batcher.dispatched();
  const auto size = static_cast<long>(batch.size());
  log_.record(now, kDispatch, subject, size);
  ++outcome_.events;

  const Nanos end = now + duration;
  long counted = 0;
  for (const Nanos arrival : batch) {
    if (arrival < spec_.warmup) continue;
    const Nanos latency = end - arrival;
    latencies_.add(latency);
    latency_sum_ += static_cast<double>(latency);
    if (latency <= spec_.slo) ++outcome_.within_slo;
    ++counted;
  }
  segment.busy += std::max<Nanos>(0, std::min(end, spec_.end) - std::max(now, spec_.warmup));
  const int processes = segment.batcher.policy().processes;
  segment.entry_free = std::max(segment.entry_free, now) + duration / processes;
  queue_.push({end, 0, kCompletion, subject, counted});
}

ServiceOutcome ServiceWorld::result() {
  const auto window = static_cast<double>(spec_.end - spec_.warmup);
  for (const Segment& segment : segments_) {
    CHECK(segment.batcher.queued() == 0 && segment.batcher.running() == 0);
    outcome_.activity.push_back(static_cast<double>(segment.busy) /
                                (window * segment.batcher.policy().processes));
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
