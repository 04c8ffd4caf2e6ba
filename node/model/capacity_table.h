// CapacityTable: planning capacities of one queue for many latency objectives. The percentile
// latency at a fixed grid of loads does not depend on the objective, so it is computed once, when
// first asked for. Between two loads the chord is taken where it is flat; over a jump, the lower
// load. The margin of planning_capacity is in. Not thread-safe.
#pragma once

#include <array>
#include <optional>

#include "model/queueing.h"

namespace partita::model {

class CapacityTable {
 public:
  // `percentile` as in planning_capacity.
  CapacityTable(BatchQueue queue, double percentile);

  // The rate to plan with under this objective; 0 when even an idle system misses it.
  Rps at(Millis slo);

  // False when at(slo) cannot be above `rate`; asks for one grid load at most.
  bool may_exceed(Rps rate, Millis slo);

 private:
  static constexpr std::size_t kLoads = 72;
  double load(std::size_t i) const;  // requests/s
  double latency(std::size_t i);     // ms at load(i)
  double with_margin(double load) const;

  BatchQueue queue_;
  double percentile_;  // with half of the misses spent
  double saturation_;
  std::array<std::optional<double>, kLoads> latency_;
};

}  // namespace partita::model
