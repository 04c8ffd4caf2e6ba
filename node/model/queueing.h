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
// state; infinite from saturation on. Includes what the policy adds to the formula above: with
// several processes, the pace may end before one is idle (blocking.h).
//
// Against long simulations of synthetic and of measured curves, 1 to 3 processes, batches to 128,
// loads to 95 %: 0.5 % off on average, more than 5 % too low in one case of a hundred. Those have
// two or three processes and a percentile on a jump: between two padded batch sizes, or where the
// queue changes between a regime of small and one of large batches; the worst was 48 % too low on a
// measured curve.
Millis latency_percentile(const BatchQueue& queue, Rps load, double percentile);

// Highest load, to 0.1 % and rounded down, whose latency_percentile is <= slo, there and on a
// coarse grid of loads below (a service runs at any load up to it); 0 when even an idle system
// misses it.
Rps capacity(const BatchQueue& queue, Millis slo, double percentile);

// What a planner may count on. A minute of Poisson traffic scatters around its steady state, so
// only half of the misses are spent (percentile 99 -> 99.5); and because a queue near saturation
// remembers, twice the standard deviation of the minute's count is kept free there, in proportion
// to the utilisation. In long simulations about one point in seventy still missed percentile 99,
// the worst with 98.3 %.
Rps planning_capacity(const BatchQueue& queue, Millis slo, double percentile);

// The two parts of that margin.
double spent_percentile(double percentile);
Rps minute_margin(Rps load, Rps saturation);

}  // namespace partita::model
