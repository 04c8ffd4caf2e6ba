// Batcher: the batching policy of one segment as a pure state machine. The simulator and the real
// gateway drive the same code; it reads no clock and owns no thread. Times are nanoseconds on the
// caller's clock.
//
// Rule: with a process idle, a batch of min(queue, max_batch) requests is dispatched as soon as
//  - the pace has passed: previous dispatch + L(previous batch)/processes <= now, and
//  - the batch is full, or its oldest request has waited max_wait.
// max_wait = 0 is Partita's default (the pace alone fills batches; the wait is bounded by
// L(max_batch)/processes); max_wait = kForever waits for full batches, which is what planning by
// execution latency alone assumes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "profile/workload_profile.h"

namespace partita::plan {

using Nanos = std::int64_t;
inline constexpr Nanos kForever = INT64_MAX;

struct BatchPolicy {
  profile::BatchCurve curve;
  int processes = 1;
  Nanos max_wait = 0;
  bool paced = true;
};

class Batcher {
 public:
  explicit Batcher(BatchPolicy policy);

  struct Decision {
    int dispatch = 0;          // requests to start now, 0 = none
    Nanos duration = 0;        // execution time of that batch
    Nanos wake_at = kForever;  // when to call step again if nothing else happens
  };

  void arrive(Nanos now);    // one request joins the queue
  void complete(Nanos now);  // one running batch has ended
  void drain();  // no more arrivals will come: nothing waits for a fuller batch any more
  Decision step(Nanos now);  // call after each of these and at wake_at; repeat while dispatch > 0

  int queued() const { return static_cast<int>(arrivals_.size() - head_); }
  int running() const { return running_; }
  // Arrivals of the batch that step() dispatched last, oldest first; valid until the next arrive().
  std::span<const Nanos> dispatched() const { return {arrivals_.data() + (head_ - last_), last_}; }
  const BatchPolicy& policy() const { return policy_; }

 private:
  BatchPolicy policy_;
  std::vector<Nanos> arrivals_;  // the queue is [head_, end); the rest has been dispatched
  std::size_t head_ = 0;
  std::size_t last_ = 0;  // size of the batch dispatched last; it ends at head_
  int running_ = 0;
  Nanos ready_at_ = INT64_MIN;  // earliest next dispatch under the pace
};

}  // namespace partita::plan
