// Poisson arrivals of rate 1, drawn once and scaled to every rate that is asked for: runs under
// common random numbers, and most of what a run would cost otherwise. Grows as far as it is read,
// 8 bytes each. Same seed, same times. Not for several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/large_pages.h"
#include "base/rng.h"

namespace partita {

class PoissonTimes {
 public:
  static constexpr std::size_t kChunk = 4096;

  explicit PoissonTimes(std::uint64_t seed) : PoissonTimes(Rng(seed)) {}
  explicit PoissonTimes(Rng rng) : rng_(rng) {}

  double at(std::size_t i) { return chunk(i / kChunk)[i % kChunk]; }
  // The times from the (number x kChunk)-th on, kChunk of them.
  const double* chunk(std::size_t number) {
    while (number >= chunks_.size()) draw();
    return chunks_[number];
  }

 private:
  double* room();
  void add_up(const double* gaps, double* times);
  void draw();

  Rng rng_;
  double clock_ = 0;
  std::vector<const double*> chunks_;  // a growing array would be copied and copied
  std::vector<std::unique_ptr<double[]>> first_;
  std::vector<LargePages> pages_;
};

// -log of a positive normal number, within 2 units in the last place, the same on every machine.
// Without a call, so that a loop over many of them takes several at a time.
double minus_log(double x);

}  // namespace partita
