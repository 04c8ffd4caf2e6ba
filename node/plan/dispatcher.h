// Dispatcher: which requests of a queue start where and when, as a pure state machine. One queue
// over the processes of one or many instances; simulator, judge and gateway drive the same code. It
// reads no clock and owns no thread. Times are nanoseconds on the caller's clock and never run
// backwards.
//
// With a process idle, the member with the smallest full-batch latency that has one takes
// min(queue, its limit) requests, as soon as
//  - the pace has passed: previous dispatch + L(previous batch) x (the member's share of the pool's
//    throughput) / processes, so that equal batches in a row never find all processes busy, and
//  - the batch is full or its oldest request has waited max_wait.
// With an SLO it goes before the pace too, once the batch is full or its oldest request can wait
// no longer (arrival + slo - L(batch) - margin): planning by the `pooled` rule is for this.
// A call that comes later than the pace asked for loses nothing: the next pace counts from the time
// that was due, by at most one pace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "profile/workload_profile.h"

namespace partita::plan {

using Nanos = std::int64_t;
inline constexpr Nanos kForever = INT64_MAX;

// An instance: its processes and how long each takes for a batch. The curve's end is the limit.
struct PoolMember {
  profile::BatchCurve curve;
  int processes = 1;
  bool operator==(const PoolMember&) const = default;
};

struct DispatchPolicy {
  std::vector<PoolMember> members;  // at least one
  Nanos max_wait = 0;               // kForever: full batches only
  bool paced = true;
  std::optional<Nanos> slo;  // set: full batches and urgent requests need not wait for the pace
  Nanos margin = 0;          // how late a wake-up may come without making a request late
};

// One instance by itself, the policy of the `queueing` rule.
DispatchPolicy paced_policy(profile::BatchCurve curve, int processes);
// The policy of the `pooled` rule, with the usual margin: a millisecond, at most a twentieth of the
// SLO.
DispatchPolicy pooled_policy(std::vector<PoolMember> members, Nanos slo);
Nanos usual_margin(Nanos slo);
Nanos execution_time(Millis latency);  // of a batch, at least a nanosecond

class Dispatcher {
 public:
  explicit Dispatcher(DispatchPolicy policy);

  struct Decision {
    int dispatch = 0;          // requests to start now, 0 = none
    int member = 0;            // where
    Nanos duration = 0;        // execution time of that batch
    Nanos wake_at = kForever;  // when to call step again if nothing else happens
  };

  // One request joins the queue, in order of these times, behind those of the same one: usually
  // now; earlier for what is more urgent, or comes back from a process that died under it.
  void arrive(Nanos time) {
    if (head_ * 2 <= arrivals_.size() && (head_ == arrivals_.size() || arrivals_.back() <= time))
      arrivals_.push_back(time);
    else
      arrive_anywhere(time);
  }
  // The same for some, ascending.
  void arrive(std::span<const Nanos> times);
  void withdraw(std::size_t position);  // the request behind so many leaves the queue
  void complete(int member);            // one of its running batches has ended
  void drain();  // no more arrivals will come: nothing waits for a fuller batch any more
  // Goes on with other members, of which busy[m] processes run a batch now. Queue and pace stay.
  void change_members(std::vector<PoolMember> members, const std::vector<int>& busy);
  Decision step(Nanos now);  // call after each of these and at wake_at; repeat while dispatch > 0

  int queued() const { return static_cast<int>(arrivals_.size() - head_); }
  int running() const { return running_; }
  // Arrivals of the batch that step() dispatched last, oldest first; valid until the next arrive().
  std::span<const Nanos> dispatched() const { return {arrivals_.data() + (head_ - last_), last_}; }
  const DispatchPolicy& policy() const { return policy_; }

 private:
  // Members that do the same in the same time.
  struct Group {
    std::vector<Nanos> durations;  // of a batch of i + 1
    std::vector<Nanos> paces;
    std::vector<int> idle;  // members, one entry per idle process, taken in turn
    std::size_t first_idle = 0;
  };

  void arrive_anywhere(Nanos time);
  void set_groups();
  void add_group(const PoolMember& member, double pool_rate);
  Group* idle_group();
  Nanos start_of(const Group& group, Nanos now) const;

  DispatchPolicy policy_;
  std::vector<Group> groups_;          // smallest full-batch latency first
  std::vector<std::size_t> group_of_;  // per member
  std::vector<Nanos> arrivals_;        // the queue is [head_, end); the rest has been dispatched
  std::size_t head_ = 0;
  std::size_t last_ = 0;  // size of the batch dispatched last; it ends at head_
  int running_ = 0;
  Nanos ready_at_ = INT64_MIN;  // earliest next dispatch under the pace
  bool awaits_pace_ = false;    // the last step asked to be woken when the pace has passed
};

}  // namespace partita::plan
