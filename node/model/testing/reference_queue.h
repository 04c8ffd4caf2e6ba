// Test oracle: the paced batch queue as a plain event loop, one request after the other. Nothing of
// it is shared with the model. Included by tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <vector>

#include "base/rng.h"
#include "model/queueing.h"

namespace partita::model {

// Sorted times (ms) from arrival to the end of execution of about `requests` requests after a
// warm-up of a twentieth.
inline std::vector<double> reference_latencies(const BatchQueue& queue, Rps load, int requests,
                                               std::uint64_t seed) {
  Rng rng(seed);
  const double gap = 1000 / load.value;
  std::vector<double> latencies;
  std::vector<double> busy_until(static_cast<std::size_t>(queue.processes), 0);
  std::deque<double> waiting;
  double next = gap * rng.exponential();
  double paced_until = 0;
  int skip = requests / 20;
  while (static_cast<int>(latencies.size()) < requests) {
    const auto process = std::min_element(busy_until.begin(), busy_until.end());
    double start = std::max(paced_until, *process);
    if (!waiting.empty()) start = std::max(start, waiting.front());
    if (waiting.empty() || next <= start) {
      waiting.push_back(next);
      next += gap * rng.exponential();
      continue;
    }
    const int batch = std::min(static_cast<int>(waiting.size()), queue.curve.max_batch());
    const double duration = queue.curve.latency(batch).value;
    for (int i = 0; i < batch; ++i, waiting.pop_front()) {
      if (skip-- <= 0) latencies.push_back(start + duration - waiting.front());
    }
    *process = start + duration;
    paced_until = start + duration / queue.processes;
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

// The smallest latency that at most 100 - percentile per cent of the sorted ones exceed.
inline double percentile_of(const std::vector<double>& sorted, double percentile) {
  const double rank = std::ceil(static_cast<double>(sorted.size()) * percentile / 100);
  return sorted[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace partita::model
