// The simulated world of one service: its traffic, the router and its segments. Services share no
// hardware in a verified plan, so each is a world of its own: small heaps, streams and logs that do
// not depend on the other services, and memory for one service at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "plan/batching.h"
#include "sim/arrivals.h"
#include "sim/engine.h"
#include "sim/histogram.h"
#include "sim/router.h"

namespace partita::sim {

struct SegmentSpec {
  plan::BatchPolicy policy;
  Rps throughput;  // planned, > 0: the router's weight
};

struct ServiceSpec {
  ArrivalSource arrivals;
  std::vector<SegmentSpec> segments;  // none: requests are offered and never served
  Nanos slo = 0;
  Nanos warmup = 0;  // requests that arrive before it are served but not counted
  Nanos end = 0;     // arrivals stop here (exclusive); what is in the system is finished
};

// Requests that arrived in [warmup, end) and what became of them.
struct ServiceOutcome {
  long offered = 0, completed = 0, within_slo = 0;
  Nanos p50 = 0, p95 = 0, p99 = 0;
  double mean_latency = 0;       // nanoseconds, arrival to completion
  std::vector<double> activity;  // per segment: busy share of its processes in [warmup, end)
  long events = 0;               // arrivals, dispatches and completions, counted or not
  std::uint64_t log_hash = 0;
};

// Runs one service after another and reuses its memory; runs do not influence each other.
class ServiceWorld {
 public:
  ServiceOutcome run(ServiceSpec spec);

 private:
  struct Segment {
    plan::Batcher batcher;
    Nanos wake = kForever;  // the earliest wake that is pending
    Nanos entry_free = 0;   // when the entry has worked off what it dispatched
    Nanos busy = 0;         // execution time of its batches that falls into [warmup, end)
  };

  void reset(ServiceSpec spec);
  void schedule_arrival();
  void handle(const Event& event);
  void join(Nanos now);
  void advance(std::size_t index, Nanos now);
  void dispatch(std::size_t index, Nanos now, Nanos duration);
  ServiceOutcome result();

  ServiceSpec spec_;
  EventQueue queue_;
  EventLog log_;
  LatencyHistogram latencies_;
  std::vector<Segment> segments_;
  Router router_;
  ServiceOutcome outcome_;
  double latency_sum_ = 0;
};

}  // namespace partita::sim
