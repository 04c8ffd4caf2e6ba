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
    2e-4;                                   // relative; percentiles are rounded up by at most that
constexpr double kCapacityAccuracy = 5e-4;  // relative; capacities are rounded down by at most that
constexpr double kFullestLoad = 1 - 1e-6;   // of saturation; a fuller queue counts as unstable
constexpr int kMostTurns = 100;             // of narrowing a bracket; some ten are usual
constexpr double kPlanningRun = 60;         // seconds
constexpr int kLoadGrid = 8;

double late_share(double percentile) {
  CHECK(percentile > 0 && percentile < 100);
  return 1 - percentile / 100;
}

double log_ratio(double late, double share) { return std::log(std::max(late, 1e-30) / share); }

// Where a function with different signs at the ends of a bracket changes its sign, to `accuracy`
// (relative). Interpolation and bisection take turns: fast on smooth stretches, safe on steps.
struct End {
  double x = 0;
  double y = 0;
};
struct Bracket {
  End low;
  End high;
};
template <class Function>
Bracket narrowed(Bracket bracket, double accuracy, const Function& function) {
  auto& [low, high] = bracket;
  for (int turn = 0; turn < kMostTurns && high.x - low.x > accuracy * high.x; ++turn) {
    const double slope = low.y / (low.y - high.y);
    const double at = turn % 2 == 0 ? std::clamp(slope, 0.02, 0.98) : 0.5;
    End next{low.x + at * (high.x - low.x)};
    next.y = function(next.x);
    ((next.y > 0) == (low.y > 0) ? low : high) = next;
  }
  return bracket;
}

// The smallest t with late(t) <= share, rounded up.
double percentile_of(BatchChain& chain, double share) {
  const auto excess = [&](double t) { return log_ratio(chain.late(t), share); };
  End low{chain.shortest(), excess(chain.shortest())};
  if (low.y <= 0) return low.x;
  End high{chain.longest_step(), excess(chain.longest_step())};
  while (high.y > 0) {
    low = high;
    high.x += chain.time_to_fall(high.y);
    high.y = excess(high.x);
  }
  return narrowed({low, high}, kPercentileAccuracy, excess).high.x;
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
  if (load.value > kFullestLoad * saturation(queue).value)
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
  const auto excess = [&](double load) {
    chain.solve(load / kMsPerSecond);
    return log_ratio(chain.late(limit), share);
  };
  End low{0, log_ratio(0, share)};
  End high;
  const double fullest = kFullestLoad * saturation(queue).value;
  for (int i = 1; i <= kLoadGrid; ++i) {
    high.x = fullest * i / kLoadGrid;
    high.y = excess(high.x);
    if (high.y > 0) return Rps{narrowed({low, high}, kCapacityAccuracy, excess).low.x};
    low = high;
  }
  return Rps{low.x};
}

double spent_percentile(double percentile) { return 100 - (100 - percentile) / 2; }

Rps minute_margin(Rps load, Rps saturation) {
  const double scatter = std::sqrt(load.value / kPlanningRun);
  return Rps{std::max(0.0, load.value - 2 * scatter * load.value / saturation.value)};
}

Rps planning_capacity(const BatchQueue& queue, Millis slo, double percentile) {
  return minute_margin(capacity(queue, slo, spent_percentile(percentile)), saturation(queue));
}

}  // namespace partita::model
