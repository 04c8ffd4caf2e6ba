// Latency of a paced batch queue: the formula behind the `queueing` SLO rule.
//
// The system: one segment with P processes, Poisson arrivals of rate `load`, FIFO queue. A batch
// may be dispatched when at least `pace` has passed since the previous dispatch, where pace =
// L(b)/P for a previous batch of b requests; it takes min(queue, B) requests, at once if there is
// one, else as soon as the next one arrives. L is the BatchCurve. Pacing is a bounded wait (never
// more than L(B)/P after the previous dispatch) and makes the entry of the segment a single server
// with service time L(b)/P, while a request's execution takes L(b).
#pragma once

#include "base/units.h"
#include "profile/workload_profile.h"

namespace partita::model {

struct BatchQueue {
  profile::BatchCurve curve;  // L; curve.max_batch() is B
  int processes = 1;          // P
};

// Largest load (exclusive) under which the queue is stable.
Rps saturation(const BatchQueue& queue);

// The `percentile` (0 < p < 100) of the time from arrival to the end of execution, in the steady
// state. Infinite when load >= saturation. Within 10 % of the simulator, never more than 5 % below
// it.
Millis latency_percentile(const BatchQueue& queue, Rps load, double percentile);

// Highest load whose latency_percentile is <= slo; 0 when even an idle system misses it.
Rps capacity(const BatchQueue& queue, Millis slo, double percentile);

// What a planner may count on: the capacity with the percentile's misses halved (99 -> 99.5). A
// finite run of traffic scatters around its steady state; with half of the misses to spare even one
// minute of Poisson arrivals stays above the percentile.
Rps planning_capacity(const BatchQueue& queue, Millis slo, double percentile);

}  // namespace partita::model
