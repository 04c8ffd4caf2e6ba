// ECLIP's problem, exactly: every kernel of several co-located workers gets a number of units, with
// few changes per worker, so that the summed time of all workers is least, where a worker is slowed
// down by the units that the others use on average (Quach et al. 2025, section V).
//
// For worker w let A be its mean units, B its summed time alone, T the units of the GPU:
//   others   sum of B_w (1 + sum of the others' A / T)      footnote 3: two workers on the same
//                                                           units take twice as long
//   literal  sum of B_w x (1 + sum of all A / T)            the formula as printed
// With the others fixed both are concave in (A_w, B_w), so some optimum lies on vertices of every
// worker's lower hull of (A, B); a vertex is one dynamic programme (group_plan.h). At an optimum
// each vertex is best at the price that the others set, so bounds on the others' (A, B) bound the
// price, and the prices bound (A, B): contraction, then branching on what is left. Exact up to
// rounding; stops at a node budget with a bound.
#pragma once

#include <string>
#include <vector>

#include "planners/mask/group_plan.h"

namespace partita::planners::mask {

enum class Overlap { others, literal };

struct Worker {
  std::string name;
  KernelTimes times;
};

struct JointProblem {
  std::vector<Worker> workers;  // at least one
  int total_units = 60;         // T
  int switches = 14;            // per worker
  double switch_cost = 0;       // time of one switch; 0 as in the paper
  Overlap overlap = Overlap::others;
};

struct JointPlan {
  std::vector<Grouping> workers;
  double objective = 0;
  double bound = 0;  // no plan has less
  bool optimal = false;
  long programmes = 0;  // dynamic programmes solved
};

inline constexpr long kDefaultBoxes = 100'000;

JointPlan plan_jointly(const JointProblem& problem, long max_boxes = kDefaultBoxes);

// The plans for 0 .. problem.switches switches.
std::vector<JointPlan> switch_curve(const JointProblem& problem, long max_boxes = kDefaultBoxes);

// The objective of any groupings of the workers.
double objective_of(const JointProblem& problem, const std::vector<Grouping>& workers);

}  // namespace partita::planners::mask
