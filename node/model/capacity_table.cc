#include "model/capacity_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace partita::model {
namespace {

// Loads below this share of the saturation go up by a constant factor, those above
// close in on it quadratically.
constexpr double kLowShare = 0.03;
constexpr std::size_t kLowLoads = 8;
// A cell in which latency grows by more than this factor holds a jump.
constexpr double kJump = 1.1;

}  // namespace

CapacityTable::CapacityTable(BatchQueue queue, double percentile)
    : queue_(std::move(queue)),
      percentile_(spent_percentile(percentile)),
      saturation_(saturation(queue_).value) {}

double CapacityTable::load(std::size_t i) const {
  if (i < kLowLoads)
    return saturation_ * kLowShare * std::pow(2, static_cast<double>(i) - kLowLoads);
  const double rest = static_cast<double>(kLoads - i) / (kLoads - kLowLoads);
  return saturation_ * (1 - (1 - kLowShare) * rest * rest);
}

double CapacityTable::latency(std::size_t i) {
  if (!latency_[i]) latency_[i] = latency_percentile(queue_, Rps{load(i)}, percentile_).value;
  return *latency_[i];
}

double CapacityTable::with_margin(double load) const {
  return minute_margin(Rps{load}, Rps{saturation_}).value;
}

Rps CapacityTable::at(Millis slo) {
  if (latency(0) > slo.value) return Rps{0};
  std::size_t low = 0, high = kLoads;  // latency(low) <= slo < latency(high)
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    (latency(middle) <= slo.value ? low : high) = middle;
  }
  double limit = load(low);
  if (high < kLoads && latency(high) < kJump * latency(low)) {
    const double part = (slo.value - latency(low)) / (latency(high) - latency(low));
    limit += part * (load(high) - load(low));
  }
  return Rps{with_margin(limit)};
}

bool CapacityTable::may_exceed(Rps rate, Millis slo) {
  std::size_t i = 0;
  while (i + 1 < kLoads && with_margin(load(i + 1)) <= rate.value) ++i;  // no latency is asked for
  return with_margin(load(kLoads - 1)) > rate.value && latency(i) <= slo.value;
}

}  // namespace partita::model
