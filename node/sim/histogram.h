// LatencyHistogram: counts of durations in buckets whose width is at most 1/512 of their value
// (log-linear; exact below 1024 ns), so that a percentile is right to 0.2 % in constant memory
// however long a simulation runs. Single-threaded.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine.h"

namespace partita::sim {

class LatencyHistogram {
 public:
  LatencyHistogram();

  // Counts one duration; negative ones are our own bug.
  void add(Nanos value);
  long count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  // The smallest recorded value v such that at least percent/100 of all values are <= v, to 0.1 %
  // (the middle of its bucket, never outside what was recorded). 0 when nothing was recorded.
  Nanos percentile(double percent) const;
  void clear();

 private:
  std::vector<std::uint64_t> buckets_;
  long count_ = 0;
  Nanos least_ = 0, most_ = 0;  // of the recorded values
  double sum_ = 0;
};

}  // namespace partita::sim
