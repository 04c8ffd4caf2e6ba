#include "model/capacity_table.h"

#include <algorithm>
#include <utility>

namespace partita::model {
namespace {

// Shares of the saturation: dense where latency bends.
constexpr std::array<double, 18> kShares = {0.001, 0.1,  0.2,  0.3,  0.4,  0.5,  0.58, 0.65, 0.71,
                                            0.76,  0.80, 0.84, 0.88, 0.91, 0.94, 0.96, 0.98, 0.99};

}  // namespace

CapacityTable::CapacityTable(BatchQueue queue, double percentile)
    : queue_(std::move(queue)),
      percentile_(spent_percentile(percentile)),
      saturation_(saturation(queue_).value) {}

double CapacityTable::load(std::size_t i) const { return kShares[i] * saturation_; }

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
  if (high < kLoads) {
    const double part = (slo.value - latency(low)) / (latency(high) - latency(low));
    limit += part * (load(high) - load(low));
  }
  return Rps{with_margin(limit)};
}

bool CapacityTable::may_exceed(Rps rate, Millis slo) {
  std::size_t i = 0;
  while (i + 1 < kLoads && with_margin(load(i + 1)) <= rate.value) ++i;
  return with_margin(load(kLoads - 1)) > rate.value && latency(i) <= slo.value;
}

}  // namespace partita::model
