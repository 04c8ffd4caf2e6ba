// The pools of a plan: what instances each service has, and what its row says of them.
#pragma once

#include <vector>

#include "plan/serving.h"
#include "planners/serving/pool_oracle.h"

namespace partita::planners::serving {

// Adds instances of a point.
void add(PoolParts& parts, const PoolPart& part);
// By service of the problem.
std::vector<PoolParts> pools_of(const plan::ServingProblem& problem, const plan::ServingPlan& plan);
// Adds the rows of the services: what the pools carry, and their percentile latency.
void fill_rows(const plan::ServingProblem& problem, plan::ServingPlan& plan, PoolOracle& oracle);

}  // namespace partita::planners::serving
