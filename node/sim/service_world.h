// The simulated world of one service: its traffic, its queues and the instances behind them.
// Services share no hardware in a verified plan, so each is a world of its own: small heaps,
// streams and logs that do not depend on the other services, and memory for one service at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/units.h"
#include "plan/admission.h"
#include "plan/dispatcher.h"
#include "sim/arrivals.h"
#include "sim/engine.h"
#include "sim/histogram.h"
#include "sim/router.h"

namespace partita::sim {

// A queue and the processes that take from it.
struct QueueSpec {
  plan::DispatchPolicy policy;
  Rps throughput;  // planned, > 0: its weight where a service has several queues
};

// Which queue a request joins: the one expected to have worked it off first (router.h), or any, by
// throughput, which is the best that a balancer without knowledge of the queues can do.
enum class Routing { least_work, random };

struct ServiceSpec {
  ArrivalSource arrivals;
  std::vector<QueueSpec> queues;  // none: requests are offered and never served
  Nanos slo = 0;
  Nanos warmup = 0;  // requests that arrive before it are served but not counted
  Nanos end = 0;     // arrivals stop here (exclusive); what is in the system is finished
  Routing routing = Routing::least_work;
  // Set: a queue with an SLO lets in what the gateway lets in, with so many waiting at most.
  std::optional<int> queue_limit = {};
  Nanos mean_lateness = 0;  // of a timer, exponentially distributed
  Rng rng{0};               // for routing and lateness
  bool keep_answers = false;
};

// What became of one request.
struct Answer {
  Nanos arrived = 0;
  Nanos latency = kForever;  // kForever: refused
  bool operator==(const Answer&) const = default;
};

// Requests that arrived in [warmup, end) and what became of them.
struct ServiceOutcome {
  long offered = 0, completed = 0, within_slo = 0;
  long refused = 0;  // at once, of the offered
  Nanos p50 = 0, p95 = 0, p99 = 0;
  double mean_latency = 0;           // nanoseconds, arrival to completion
  std::vector<Answer> answers = {};  // where they are kept: of all requests, as they came
  std::vector<std::vector<double>>
      activity;     // per queue and member: busy share of its processes in [warmup, end)
  long events = 0;  // arrivals, dispatches and completions, counted or not
  std::uint64_t log_hash = 0;
};

// Runs one service after another and reuses its memory; runs do not influence each other.
class ServiceWorld {
 public:
  ServiceOutcome run(ServiceSpec spec);

 private:
  struct Queue {
    plan::Dispatcher dispatcher;
    std::optional<plan::Admission> admission = {};
    std::deque<std::size_t> unanswered = {};  // of the kept answers
    Nanos asked = kForever;                   // the earliest wake that is pending
    Nanos entry_free = 0;                     // when the entry has worked off what it dispatched
    int processes = 0;                        // of all members
    std::vector<Nanos> busy = {};  // per member: execution time that falls into [warmup, end)
  };

  void reset(ServiceSpec spec);
  void schedule_arrival();
  void handle(const Event& event);
  std::size_t choose(Nanos now);
  void join(Nanos now);
  void refuse(std::size_t index, Nanos now);
  void answer(Queue& queue, Nanos latency);
  void advance(std::size_t index, Nanos now);
  void dispatch(std::size_t index, Nanos now, const plan::Dispatcher::Decision& decision);
  ServiceOutcome result();

  ServiceSpec spec_;
  EventQueue events_;
  std::optional<Event> arrival_;  // the next one: half of all events need no place in the heap
  EventLog log_;
  LatencyHistogram latencies_;
  std::vector<Queue> queues_;
  std::vector<double> split_;  // cumulative throughput
  Router router_;
  ServiceOutcome outcome_;
  double latency_sum_ = 0;
};

}  // namespace partita::sim
