// Blocking: with several processes, the pace after a batch may end before any process is idle,
// because batches of different sizes take differently long. The sampler plays a short run of
// dispatches with a fixed seed and reports, per size class, how often that happens and how long the
// queue then waits. Deterministic: equal inputs, equal results, and nearly continuous in the load
// (the same random numbers at every load). Single-threaded, reusable.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::model {

// Batches of first ... last requests take `latency`; the next dispatch follows after `pace` at the
// earliest.
struct SizeClass {
  int first = 0;
  int last = 0;
  double latency = 0;
  double pace = 0;
};

// After a dispatch of the class that leaves nothing waiting.
struct Blocking {
  double share = 0;   // probability that no process is idle when the pace has passed
  double length = 0;  // from the dispatch until one is, in that case: mean, > pace
  double spread = 0;  // and standard deviation, <= length - pace
};

class BlockingSampler {
 public:
  // Per class, under `load` requests per unit of time. All zero for one process.
  const std::vector<Blocking>& sample(const std::vector<SizeClass>& classes, int processes,
                                      double load);

 private:
  void play(const std::vector<SizeClass>& classes, double load, int queued, std::uint64_t seed);

  std::vector<double> busy_until_;  // per process
  std::vector<int> visits_;         // per class
  std::vector<int> blocked_;        // per class
  std::vector<double> sums_;        // per class, of the blocked waits
  std::vector<double> squares_;
  std::vector<Blocking> blocking_;
};

}  // namespace partita::model
