// Problems that change, and oracles for incremental plans that share nothing with the planner but
// hw's layouts.
#pragma once

#include <string>

#include "base/rng.h"
#include "plan/serving.h"

namespace partita::incremental_test {

// One GPU model; random services, each with its own random profile under the execution rule.
plan::ServingProblem random_problem(Rng& rng, const std::string& gpu, int services, double scale);

// One service "m" on A30s: a 1g carries 10, a 2g 20 and the 4g 40 requests/s, with batch 1 at 10
// ms; with batch 2 half as much at 30 ms.
plan::ServingProblem by_hand(double rate);

// The same services with some rates changed by up to half, and now and then one gone or new.
plan::ServingProblem changed(Rng& rng, plan::ServingProblem problem, double share);

// Other GPU indices, and other batches or processes now and then: a plan with a history.
void shuffle(Rng& rng, plan::ServingPlan& plan);

// The fewest instances that must be created on at most `gpus` GPUs, by trying every layout with
// every choice of services on every GPU. For tiny fleets.
int fewest_creations(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                     int gpus);

// The same when every GPU may be used and as many more as wanted: what is kept falls short by.
int missing_when_all_is_kept(const plan::ServingProblem& problem,
                             const plan::ServingPlan& current);

// The plan with its GPUs renumbered so that the most instances are kept (best assignment, by
// augmenting paths).
plan::ServingPlan matched_to(const plan::ServingPlan& current, plan::ServingPlan plan);

}  // namespace partita::incremental_test
