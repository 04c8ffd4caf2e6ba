// Dispatcher: how long one kernel of G equal work-groups takes on a mask, work-group by work-group.
//   equal_split      work-groups go to the clusters of the mask in turn, in order, and within a
//                    cluster to the unit with the most room; a full cluster holds up all behind it.
//                    That is what Chow 2022 measured on an MI50 (section 3.3.3): the cluster with
//                    the fewest units sets the pace
//   work_conserving  each work-group goes to the unit with the most room anywhere: the control
// Pure functions; times in microseconds. A dispatch takes O(groups x units).
#pragma once

#include <cstdint>
#include <vector>

#include "hw/topology.h"

namespace partita::sim {

enum class Dispatcher { equal_split, work_conserving };

struct GroupKernel {
  int groups = 1;           // work-groups, >= 1
  int groups_per_unit = 1;  // at most at once on a unit, >= 1
  double time_us = 1;       // of one work-group, > 0
  double spread = 0;        // times lie uniformly within +- that share, in [0, 1)
};

struct Dispatch {
  double time_us = 0;          // until the last work-group ends
  double effective_units = 0;  // units that would take as long, all busy: work / time
  std::vector<int> groups_on;  // per unit of the topology
  std::uint64_t log_hash = 0;  // of every start and end
  bool operator==(const Dispatch&) const = default;
};

// Carries out one kernel, event by event. The mask has at least one unit and none outside the
// topology.
Dispatch dispatch(const hw::Topology& topology, const hw::UnitMask& mask, const GroupKernel& kernel,
                  Dispatcher dispatcher, std::uint64_t seed = 0);

// The same time in closed form; needs spread == 0. equal_split, with k clusters of which the p-th
// (from 0) is the first of those with the fewest units m: k m s work-groups a wave at s per unit,
// and p more in the first. work_conserving: n s a wave.
double dispatch_time_us(const std::vector<int>& units_per_cluster, const GroupKernel& kernel,
                        Dispatcher dispatcher);

}  // namespace partita::sim
