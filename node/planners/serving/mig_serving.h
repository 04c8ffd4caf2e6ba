// The MIG-serving planners (Tan et al., "Serving DNN Models with Multi-Instance GPUs: A Case of the
// Reconfigurable Machine Scheduling Problem", arXiv:2109.11067, 2021, Optimizer): a baseline of MIG
// instances without MPS.
//
// A configuration is a full layout of one GPU with a service on every instance, of at most two
// services. Its utility for a service is the share of the rate that it carries. Fast algorithm: the
// configuration with the highest score, the sum of utility x what is missing of the service, is
// taken until every rate is carried. Slow algorithm: from there generations of deployments; a
// crossover takes some GPUs off a deployment and a Monte Carlo tree search (mig_serving_search.h)
// finds others in their place, a mutation swaps services between instances of one size. The best
// deployments go on.
//
// No code is public; read after the abstract, ParvaGPU's account (SC24) and what else is known of
// it. Deviations:
//  - Per size the point of most throughput within the limit, as the rule says, one process.
//  - Scores count a utility beyond what is missing, which over-allocates to services of low rates,
//    as ParvaGPU reports. Of equal scores the first pair of services and layout wins.
//  - In the second phase gains are capped at what is missing: else the tree cannot see what is
//    wasted. Instances that neither service gains from stay
//    empty.
//  - Budgets count steps, not time (the paper stops after minutes to hours); seeds are fixed.
//  - With more than kMostPairs services pairs are formed of those that score highest alone.
//  - Its own rule is execution:1: the largest batch whose latency is within the SLO.
// Lower bounds are not claimed; anti_affinity, min_replicas and GPU counts are only checked.
#pragma once

#include "planners/serving/planner.h"

namespace partita::planners::serving {

inline constexpr std::size_t kMostPairs = 200;

// Both phases.
Outcome plan_mig_serving(const plan::ServingProblem& problem, const Options& options);
// The fast algorithm alone.
Outcome plan_mig_serving_greedy(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
