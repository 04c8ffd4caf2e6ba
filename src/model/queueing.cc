#include "model/queueing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "model/batch_chain.h"

namespace partita::model {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr double kPercentileAccuracy =
    2e-4;  // relative; the percentile is rounded up by at most that
constexpr double kCapacityAccuracy =
    5e-4;                                  // relative; the capacity is rounded down by at most that
constexpr double kFullestLoad = 1 - 1e-6;  // of saturation; a fuller queue counts as unstable
constexpr int kLoadGrid = 8;

double late_share(double percentile) {
  CHECK(percentile > 0 && percentile < 100);
  return 1 - percentile / 100;
}

// The smallest t with late(t) <= share, rounded up.
double percentile_of(BatchChain& chain, double share) {
  double low = chain.shortest();
  if (chain.late(low) <= share) return low;
  double high = chain.longest_step();
  double late_high = chain.late(high);
  while (late_high > share) {
    low = high;
    high += chain.time_to_fall(late_high / share);
    late_high = chain.late(high);
  }
  while (high - low > kPercentileAccuracy * high) {
    const double middle = (low + high) / 2;
    (chain.late(middle) <= share ? high : low) = middle;
  }
  return high;
}

}  // namespace

Rps saturation(const BatchQueue& queue) {
  CHECK(queue.processes >= 1 && !queue.curve.steps.empty());
  return Rps{kMsPerSecond * queue.curve.max_batch() * queue.processes /
             queue.curve.steps.back().latency.value};
}

Millis latency_percentile(const BatchQueue& queue, Rps load, double percentile) {
  CHECK(load.value >= 0);
  const double share = late_share(percentile);
  if (load.value >= kFullestLoad * saturation(queue).value)
    return Millis{std::numeric_limits<double>::infinity()};
  BatchChain chain(queue, share);
  chain.solve(load.value / kMsPerSecond);
  return Millis{percentile_of(chain, share)};
}

Rps capacity(const BatchQueue& queue, Millis slo, double percentile) {
  const double share = late_share(percentile);
  BatchChain chain(queue, share);
  const double limit = slo.value * (1 - kPercentileAccuracy);
  if (limit < chain.shortest()) return Rps{0};
  const auto holds = [&](double load) {
    chain.solve(load / kMsPerSecond);
    return chain.late(limit) <= share;
  };

  const double fullest = kFullestLoad * saturation(queue).value;
  double low = 0;
  double high = fullest;
  for (int i = 1; i <= kLoadGrid; ++i) {
    high = fullest * i / kLoadGrid;
    if (i == kLoadGrid || !holds(high)) break;
    low = high;
  }
  while (high - low > kCapacityAccuracy * high) {
    const double middle = (low + high) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return Rps{low};
}

Rps planning_capacity(const BatchQueue& queue, Millis slo, double percentile) {
  return capacity(queue, slo, 100 - (100 - percentile) / 2);
}

}  // namespace partita::model
