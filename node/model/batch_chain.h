// The stationary paced batch queue of queueing.h as an embedded Markov chain, one step per
// dispatch. A state is the size class of the batch that was dispatched (batches of one class take
// equally long) and, after a full batch, how many requests were left waiting. After the pace of
// that batch the queue holds the left ones plus a Poisson number of new ones, which decides the
// next state. Leftovers are counted on a mean-preserving grid up to a border; beyond it they fall
// geometrically. With several processes the pace may end before one is idle: how often and for how
// long a class is blocked that way comes from a short sampled run (blocking.h). Single-threaded,
// reusable.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "model/blocking.h"
#include "model/poisson.h"
#include "model/queueing.h"

namespace partita::model {

class BatchChain {
 public:
  // `share` is the order of magnitude of the shares that late() will be compared with.
  BatchChain(const BatchQueue& queue, double share);

  // Finds the stationary state under `load` requests per millisecond, below saturation.
  void solve(double load);

  // Share of the requests whose time from arrival to the end of execution exceeds t (ms). Needs
  // solve().
  double late(double t);

  double shortest() const { return classes_.front().latency; }
  // Longest time of a request that waits for no full batch.
  double longest_step() const { return classes_.back().latency + classes_.back().pace; }
  // About how much longer t must be for late(t), far out, to fall by e^logarithm.
  double time_to_fall(double logarithm) const;

 private:
  // The time until the queue may be dispatched again, after batches of one class: its pace, or
  // longer when blocked.
  struct Interval {
    std::size_t size_class = 0;
    double length = 0;
    double share = 0;  // of the class's dispatches that leave nothing waiting
    Poisson arrivals;
    // How often such an interval begins with i * spacing_ requests waiting; `border` is the total
    // beyond.
    std::vector<double> weights;
    double border = 0;
    double joining_full = 0;  // its requests, if it ends with more than a batch waiting
  };

  void refine_blocking();
  void set_intervals(double load);
  void choose_grid(double load);
  void fill_matrix();
  void add_transitions(const Poisson& arrivals, int left, double weight, double* row) const;
  void solve_matrix();
  void weigh_intervals();
  void count_requests();
  void count_joining(Interval& interval, double* joining);
  double weight_from(const Interval& interval, int index) const;
  double on_time(std::size_t index, double t);
  double overtime(const Interval& interval, double slack);
  double weighted_excess(const Interval& interval, const Poisson& arrivals, int count) const;

  int full() const { return classes_.back().last; }
  Interval& unblocked_full() { return intervals_[classes_.size() - 1]; }
  std::span<Interval> used_intervals() { return std::span(intervals_).first(used_); }
  std::size_t states() const {
    return classes_.size() + (cells_ == 1 ? 0 : static_cast<std::size_t>(cells_));
  }

  std::vector<SizeClass> classes_;
  int processes_ = 1;
  BlockingPools pools_;
  std::vector<BlockingParts> blocking_;  // by class
  std::vector<double> backlog_;          // scratch of refine_blocking()
  double share_ = 0;
  double decay_ = 0;  // the probability of r leftovers falls as exp(-decay_ * r)
  int spacing_ = 1;
  int cells_ = 1;  // grid points of leftovers; 1 = overflow is negligible

  std::vector<Interval> intervals_;  // unblocked ones by class, blocked ones, unused ones
  std::size_t used_ = 0;
  std::vector<double> matrix_;      // states() x states()
  std::vector<double> stationary_;  // states()
  std::vector<double> joining_;     // [interval][class]: requests that join a batch of that class
  std::vector<double>
      leftover_next_;    // [class]: distribution of the class in which leftovers leave
  double idle_ = 0;      // requests that find the queue idle, per dispatch
  double requests_ = 0;  // requests per dispatch
  Poisson partial_;      // scratch of late()
};

}  // namespace partita::model
