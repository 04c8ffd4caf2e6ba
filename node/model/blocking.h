// Blocking: with several processes, the pace after a batch may end before any process is idle,
// because batches of different sizes take differently long. That depends on the remaining times of
// the other processes, of which a pool of equally likely samples is kept per size class, so that
// rare classes are known as well as common ones. refine() moves all pools one dispatch forward;
// alternating it with the exact solution of the classes (aggregation and disaggregation) converges
// in a few rounds. No random numbers. Single-threaded, reusable.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "model/poisson.h"

namespace partita::model {

// Batches of first ... last requests take `latency`; the next dispatch follows after `pace` at the
// earliest.
struct SizeClass {
  int first = 0;
  int last = 0;
  double latency = 0;
  double pace = 0;
};

// How long a class may be blocked, after a dispatch that leaves nothing waiting: part `i` of
// kBlockingParts covers an equal stretch between the pace and the latency.
inline constexpr std::size_t kBlockingParts = 3;
struct Blocking {
  double share = 0;   // probability
  double length = 0;  // mean time from the dispatch until a process is idle, > pace
};
using BlockingParts = std::array<Blocking, kBlockingParts>;

class BlockingPools {
 public:
  // Starts with nothing blocked and every class in a row of its like. At least two classes and two
  // processes.
  void start(const std::vector<SizeClass>& classes, int processes, double load);

  // One dispatch forward. `empty[j]`: how often a batch of class j leaves nothing waiting;
  // `backlog[k]`: how often a batch of class k follows one that left something.
  void refine(const std::vector<double>& empty, const std::vector<double>& backlog);

  // By class; all zero after start().
  const std::vector<BlockingParts>& blocking() const { return blocking_; }

 private:
  // What may follow a sample: the remaining times of the other processes at the next dispatch.
  struct Candidate {
    std::size_t others = 0;  // index into moved_
    double weight = 0;
    std::size_t size_class = 0;
  };

  void tabulate_next_classes(double load);
  void add_followers(std::size_t size_class, const double* others, double weight, double idle);
  void add_moved(std::size_t size_class, double weight);
  void resample(std::size_t size_class);
  void measure();

  std::size_t others() const { return static_cast<std::size_t>(processes_ - 1); }

  std::vector<SizeClass> classes_;
  int processes_ = 0;
  double load_ = 0;
  std::vector<double> next_;     // [interval grid][class]: probability of the next class
  std::vector<double> none_;     // [interval grid]: probability of no arrival
  std::vector<double> pools_;    // [class][sample][other process]
  std::vector<double> scratch_;  // processes_ remaining times
  std::vector<double> moved_;    // [candidate group][other process]
  std::vector<std::vector<Candidate>> candidates_;  // by next class
  std::vector<BlockingParts> blocking_;
  Poisson poisson_;
};

}  // namespace partita::model
