// Plans that keep every SLO when any one GPU is lost (plan::ServingProblem::survive).
//
// Some GPU has a service's largest instance: with that gone the others still carry its rate. So a
// service whose largest instance is of class k needs instances no larger than k that add up to its
// demand and one k more: a mode (cover.h) per class. Plans on fewer GPUs than bound_surviving()
// says do not exist, wherever the instances stand.
//
// Here every service keeps to one instance per GPU, so that these modes are all that is needed, and
// the planner of services that keep apart (apart_plan.h) does the rest. A service with several
// instances on one GPU can be better off; where the bound is not met that gap stands.
#pragma once

#include <vector>

#include "planners/serving/fleet.h"
#include "planners/serving/planner.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

// The modes with the largest instance to spare: point tables as plan_exact() takes them.
std::vector<PointTables> with_spare(const plan::ServingProblem& problem,
                                    const std::vector<PointTables>& modes);

// GPUs, bounds (of this narrower problem) and explanation; see plan_exact() of exact.h.
Outcome plan_surviving(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                       const Options& options);

// Bounds that hold for any plan whose services need what `modes` say, and whether the plan meets
// them; of watts, what plans with two instances of each service take at least.
void bound_surviving(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                     const Options& options, plan::ServingPlan& plan);

// Why a planner that knows nothing of losses does not plan; empty when none may happen.
std::vector<plan::Reason> cannot_survive(const plan::ServingProblem& problem,
                                         const std::string& planner);

}  // namespace partita::planners::serving
