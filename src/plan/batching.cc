#include "plan/batching.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace partita::plan {
namespace {

Nanos nanos(Millis duration) { return std::max<Nanos>(1, std::llround(duration.value * 1e6)); }

// Rounded up, so that P equal batches paced in a row never find all P processes still busy.
Nanos pace_of(Nanos duration, int processes) { return (duration + processes - 1) / processes; }

}  // namespace

Batcher::Batcher(BatchPolicy policy) : policy_(std::move(policy)) {
  CHECK(!policy_.curve.steps.empty());
  CHECK(policy_.processes >= 1);
  CHECK(policy_.max_wait >= 0);
}

void Batcher::arrive(Nanos now) {
  // Forget what has been dispatched once it is half of the buffer: constant cost per request on
  // average.
  if (head_ * 2 > arrivals_.size()) {
    arrivals_.erase(arrivals_.begin(), arrivals_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
    last_ = 0;
  }
  arrivals_.push_back(now);
}

void Batcher::complete(Nanos) {
  CHECK(running_ > 0);
  --running_;
}

void Batcher::drain() { policy_.max_wait = 0; }

Batcher::Decision Batcher::step(Nanos now) {
  const int waiting = queued();
  if (waiting == 0 || running_ == policy_.processes)
    return {};  // an arrival or a completion comes first

  const int limit = policy_.curve.max_batch();
  Nanos start = ready_at_;
  if (waiting < limit && policy_.max_wait > 0) {
    const Nanos oldest = arrivals_[head_];
    const Nanos patience = policy_.max_wait;
    start = std::max(start, oldest > kForever - patience ? kForever : oldest + patience);
  }
  if (start > now) return {.wake_at = start};

  const int batch = std::min(waiting, limit);
  const Nanos duration = nanos(policy_.curve.latency(batch));
  last_ = static_cast<std::size_t>(batch);
  head_ += last_;
  ++running_;
  if (policy_.paced) ready_at_ = now + pace_of(duration, policy_.processes);
  return {.dispatch = batch, .duration = duration};
}

}  // namespace partita::plan
