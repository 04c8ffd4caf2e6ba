// The exact planner: fewest GPUs (or least cost of a priced fleet), then fewest compute slices,
// with a proof.
//
// 1. Every service is reduced to its best point per instance shape (points.h); what is left is to
//    choose counts per shape that carry its rate (a covering knapsack, cover.h) so that all counts
//    together pack onto the fewest GPUs.
// 2. The packing is described exactly by facets (hw/packing.h); the master over convexified
//    services gives a bound whose rounding up is nearly always the optimum (master.h).
// 3. An integral plan that meets the bound is searched (search.h): rounded master, tabu search,
//    exhaustive search. Where none exists that is proved, and the next number of GPUs is tried.
// 4. With the GPUs fixed, the same for the compute slices.
// Fewest watts (ServingProblem::goal) are another search: energy.h.
// Limits: Options::node_budget search nodes; when it is reached the gap stands in the objective.
// Services that must keep apart go another way (apart_plan.h), with patterns of whole GPUs; with
// more than kMaxApartGroups groups of them they are placed after counting, and a bound may stay
// open. In a fleet of several GPU models the slices are minimised on all numbers of GPUs of the
// least price; with more than kMaxEqualTrials of them (fleet.h) their bound may stay open.
#pragma once

#include <vector>

#include "planners/serving/cover.h"
#include "planners/serving/planner.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

Outcome plan_exact(const plan::ServingProblem& problem, const Options& options);

// The same from point tables: every service may use any one of the modes. GPUs, objective (of
// these tables, with no GPU lost) and explanation; service rows and timings are left to complete()
// (finish.h).
Outcome plan_exact(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                   const Options& options);

// What the master alone says of one GPU model, where a search would take long: GPUs that any plan
// needs at least, and a cover for each service, in the proportions of its solution, rounded. At
// least one service, each of which can be served.
struct MasterAnswer {
  int least_gpus = 0;
  std::vector<Counts> covers;  // per service
};
MasterAnswer ask_master(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
                        const Options& options);

}  // namespace partita::planners::serving
