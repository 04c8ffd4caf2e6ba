// PacedQueue: the judge's own solution of a segment under the pacing policy of plan/dispatcher.h
// (max_wait = 0).
//
// P processes, batches of at most B, Poisson arrivals, FIFO. After a batch of b the entry is busy
// for L(b)/P; then min(queue, B) requests leave together, at once or, from an empty queue, with the
// next arrival, and are done L later. A process is taken to be idle whenever the pace has
// passed (segment.h looks at what that leaves out).
//
// Method: the stationary law of the queue at the ends of the pace, on the full lattice (no grouping
// of queue lengths), then for every kind of cycle the expected number of late requests by the Mecke
// formula: the arrivals before and after a request are independent Poisson counts, so "how many are
// ahead" fixes how long it waits and "how many more come" how large its batch gets. Limits: a
// backlog that needs more than kMaxCells matrix cells (utilisation beyond ~0.999) counts as
// unstable.
#pragma once

#include <vector>

#include "base/units.h"
#include "profile/workload_profile.h"
#include "verify/poisson.h"

namespace partita::verify {

inline constexpr int kMaxCells = 4'000'000;

class PacedQueue {
 public:
  // A segment that receives `load` > 0. The curve has at least one step; processes >= 1.
  PacedQueue(const profile::BatchCurve& curve, int processes, Rps load);

  // The load at which the queue would grow without end: full batches back to back.
  static Rps saturation(const profile::BatchCurve& curve, int processes);

  // False when the load is too close to saturation or above it; then every request counts as late.
  bool stable() const { return stable_; }

  // Share of the dispatches that do not take as long as most do. Needs stable().
  double mixture() const;

  // Share of the requests whose time from arrival to end of execution exceeds `limit`.
  double late(Millis limit) const;
  // Never below late(), and much cheaper: requests that wait for more than one batch are taken to
  // run in a full one.
  double late_at_most(Millis limit) const;
  // late(limit) <= 1 - percentile/100, by the bound when it suffices.
  bool within(Millis limit, double percentile) const;
  // The smallest limit that holds, to a relative 1e-4; infinite when unstable.
  Millis latency(double percentile) const;

 private:
  // Batches that take equally long: sizes (class before's largest, largest].
  struct Class {
    int largest = 0;
    double latency = 0;  // ms
    double pace = 0;     // ms
    Poisson arrivals;    // during the pace
  };

  void solve();
  std::vector<std::vector<double>> backlog_by_class() const;
  double late_in_cycles(std::size_t c, double limit) const;
  double spared_in_cycles(std::size_t c, double limit) const;
  double spared_at(std::size_t c, double u, int full_batches, int batch) const;
  double share_of_backlog(std::size_t c, int r) const;

  double rate_ = 0;  // requests per ms
  int max_batch_ = 0;
  bool stable_ = false;
  int depth_ = 0;                // backlogs 1..depth_ are on the lattice
  std::vector<Class> classes_;   // ascending batch size
  std::vector<double> mass_;     // per class: dispatches that leave nothing behind
  std::vector<double> backlog_;  // backlog_[r - 1]: full dispatches that leave r behind
  double idle_ = 0;              // paces that end with an empty queue
  double arrivals_ = 0;          // requests per cycle
};

}  // namespace partita::verify
