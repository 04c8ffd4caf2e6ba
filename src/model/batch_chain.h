// The stationary paced batch queue of queueing.h as an embedded Markov chain, one step per dispatch.
// A state is the size class of the batch that was dispatched (batches of one class take equally long) and, after a
// full batch, how many requests were left waiting. After the pace of that batch the queue holds the left ones plus
// a Poisson number of new ones, which decides the next state. Leftovers are counted on a grid of spacing() requests
// (mean-preserving, so the spread is never underestimated) up to a border; beyond it they fall geometrically.
// Exact up to the grid and two independence assumptions, both marked in the source. Single-threaded, reusable.
#pragma once

#include <cstddef>
#include <vector>

#include "model/poisson.h"
#include "model/queueing.h"

namespace partita::model {

class BatchChain {
 public:
  // `share` is the order of magnitude of the shares that late() will be compared with.
  BatchChain(const BatchQueue& queue, double share);

  // Finds the stationary state under `load` requests per millisecond, below saturation.
  void solve(double load);

  // Share of the requests whose time from arrival to the end of execution exceeds t (ms). Needs solve().
  double late(double t);

  double shortest() const { return classes_.front().latency; }
  // Longest time of a request that waits for no full batch.
  double longest_step() const { return classes_.back().latency + classes_.back().pace; }
  // About how much longer t must be for late(t), far out, to fall by `factor` > 1.
  double time_to_fall(double factor) const;

 private:
  // Batches of first ... last requests take `latency`; the next dispatch follows after `pace` at the earliest.
  struct SizeClass {
    int first = 0;
    int last = 0;
    double latency = 0;
    double pace = 0;
  };
  // How many requests a class leaves waiting: weights[i] for i * spacing_, then border * ratio^i.
  struct Leftovers {
    std::vector<double> weights;
    double border = 0;  // total weight beyond `weights`
  };

  void choose_grid(double load);
  void fill_matrix();
  void add_transitions(const Poisson& arrivals, int left, double weight, double* row) const;
  void solve_matrix();
  void count_requests();
  double weight_from(const Leftovers& left, int index) const;
  double on_time(std::size_t j, double t);
  double overtime(std::size_t j, double slack);
  double weighted_excess(const Leftovers& left, const Poisson& arrivals, int count) const;

  int full() const { return classes_.back().last; }
  std::size_t states() const { return classes_.size() + (cells_ == 1 ? 0 : static_cast<std::size_t>(cells_)); }

  std::vector<SizeClass> classes_;
  double share_ = 0;
  double decay_ = 0;  // the probability of r leftovers falls as exp(-decay_ * r)
  int spacing_ = 1;
  int cells_ = 1;  // grid points of leftovers; 1 = overflow is negligible

  std::vector<Poisson> arrivals_;      // by class: during its pace
  std::vector<double> matrix_;         // states() x states()
  std::vector<double> stationary_;     // states()
  std::vector<Leftovers> leftovers_;   // by class
  std::vector<double> joining_;        // [class][next class]: requests that join a batch of that class
  std::vector<double> joining_full_;   // [class]: requests of intervals after which more than a batch waits
  std::vector<double> leftover_next_;  // [next class]: distribution of a leftover's own batch
  double idle_ = 0;                    // requests that find the queue idle, per dispatch
  double requests_ = 0;                // requests per dispatch
  Poisson partial_;                    // scratch of late()
};

}  // namespace partita::model
