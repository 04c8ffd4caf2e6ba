// ECLIP's problem, exactly: every kernel of several co-located workers gets a number of units, with
// few changes per worker, so that the summed time of all workers is least, where a worker is slowed
// down by the units that the others use on average (Quach et al. 2025, section V).
//
// With the others fixed both are concave in (A_w, B_w), so some optimum lies on vertices of every
// worker's lower hull of (A, B); a vertex is one dynamic programme (group_plan.h). At an optimum
// each vertex is best at the price that the others set, so bounds on the others' (A, B) bound the
// price, and the prices bound (A, B): contraction, then branching on what is left. Workers with the
// same kernels are ordered by their units. Exact up to rounding; stops at a node budget with a
// bound.
#pragma once

#include <vector>

#include "planners/mask/group_plan.h"

namespace partita::planners::mask {

struct JointPlan {
  plan::KernelPlan plan;
  long programmes = 0;  // dynamic programmes solved
};

inline constexpr long kDefaultBoxes = 100'000;

JointPlan plan_jointly(const plan::KernelProblem& problem, long max_boxes = kDefaultBoxes);

// The plans for 0 .. problem.switches switches.
std::vector<JointPlan> switch_curve(const plan::KernelProblem& problem,
                                    long max_boxes = kDefaultBoxes);

}  // namespace partita::planners::mask
