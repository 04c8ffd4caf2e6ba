// The PARIS+ELSA planner (Kim, Choi and Rhu, "PARIS and ELSA: An Elastic Scheduling Algorithm for
// Reconfigurable Multi-GPU Inference Servers", DAC'22): a baseline of MIG instances without MPS.
//
// PARIS: on every size the knee is the smallest batch that reaches 80 % of the utilisation; queries
// up to the knee of the smallest size are for that size, those up to the next knee for the next
// size, and so on. The number of instances of a size is in proportion to the time that its queries
// take on it.
//
// Read with github.com/0909wlgur/Paris_Elsa at 2cb865f. Deviations:
//  - Utilisation is not in profiles: 80 % of the best throughput of the size within the limit.
//  - PARIS asks how many requests a query brings. Services files do not say so; as in the paper's
//    evaluation they are taken as log-normal, sigma 0.9, here with the median 8, from 1 up to the
//    largest batch that the service may run.
//  - The paper divides a fixed number of GPUs by these proportions. Here they are absolute: queries
//    per second x seconds per query is the number of busy instances, rounded up, per service.
//  - An instance states what its knee's batch was measured to carry; if rounding of measurements
//    leaves a service short, it gets more of its largest size.
//  - PARIS has nothing against fragments: instances go service by service, large ones first, onto
//    the first GPU with a legal start free.
//  - ELSA decides at run time which instance takes which query; here that is the dispatcher's.
//  - Its own rule is execution:1: the paper's deadline is for the whole query, of which execution
//    on an idle instance is what can be planned.
// Lower bounds are not claimed; anti_affinity, min_replicas and GPU counts are only checked.
#pragma once

#include <vector>

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// The share of queries that bring 1, 2 ... `largest` requests; sums to 1.
std::vector<double> paris_queries(int largest);

Outcome plan_paris_elsa(const plan::ServingProblem& problem, const Options& options);

}  // namespace partita::planners::serving
