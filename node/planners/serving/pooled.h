// Planning by the pooled rule: what a service needs is one pool of instances, whose capacity is not
// the sum of its instances'.
//
// A service may be planned in several modes. A mode caps the execution latency of a full batch at
// a share of the SLO; every shape then has one point, the one with the highest throughput within
// the cap, and the pool carries the rate when the throughputs add up to the mode's demand: the rate
// plus what waiting for short batches, and bad luck, cost. Long batches are efficient and leave
// little time to wait, short ones the other way round, so every service keeps all modes that can be
// part of a good plan. The demand comes from model/pool.h, and no plan leaves before each of its
// pools has been simulated at the planned rate; a pool that misses makes its mode dearer, and the
// plan is made again.
//
// Bounds are those of the fluid relaxation, which holds for any dispatcher: requests in time run in
// batches no longer than the SLO, and no process is ever more than busy. `optimal` only where the
// plan meets them.
#pragma once

#include <functional>
#include <vector>

#include "planners/serving/planner.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

// A planner over points: every service may use any one of the modes. The problem is the one asked
// about, or the same with fewer GPU models.
using PointPlanner =
    std::function<Outcome(const plan::ServingProblem&, const std::vector<PointTables>& modes)>;

// The plan of `solve` with all modes, its pools checked, with the bounds of the relaxation. What a
// mode needs is found for all GPU models together, and one that needs more makes the others dearer:
// where a fleet's plan costs more than its bound, fewer of its models are planned too (each alone;
// of three, pairs as well), and the cheapest plan is taken.
Outcome plan_pools(const plan::ServingProblem& problem, const Options& options,
                   const PointPlanner& solve);
// The same for planners that know one point per shape: every service in the mode that the best plan
// of all modes uses.
Outcome plan_pools_in_one_mode(const plan::ServingProblem& problem, const Options& options,
                               const PointPlanner& solve);

}  // namespace partita::planners::serving
