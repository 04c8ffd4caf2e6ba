// Groups of kernels of one worker: every kernel gets one of a few numbers of units, and the number
// may change only so often on the way. Exact dynamic programme, O(kernels x options x switches);
// some tens of microseconds for 700 kernels and 4 options. Not thread-safe (keeps its tables).
#pragma once

#include <vector>

#include "plan/kernels.h"

namespace partita::planners::mask {

using plan::Grouping;
using plan::KernelTimes;

class GroupPlanner {
 public:
  // `times` must outlive this. At most `switches` changes of the option, each of which takes
  // `switch_cost`.
  GroupPlanner(const KernelTimes& times, int switches, double switch_cost);
  // The grouping with the least time + price x mean_units.
  Grouping best(double price);

 private:
  Grouping traced() const;

  const KernelTimes& times_;
  int switches_;
  double switch_cost_;
  std::size_t lanes_;          // switches + 1, rounded up
  std::vector<double> table_;  // [kernel][option][switches so far, at most]
  std::vector<double> least_;  // [switches]: over the options, one switch earlier
  std::vector<double> price_;  // [option]: of one kernel
};

}  // namespace partita::planners::mask
