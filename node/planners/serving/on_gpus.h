// What one service can do on a given number of GPUs. The search of pooled.h asks for the cheapest
// pool of a demand, which it raises until a pool holds; how far depends on where it begins, so that
// it may find less for a longer SLO. This asks the other way round: of all pools on so many GPUs
// those that carry most, some for each length of batch. They are the same for every wish but for
// what a longer SLO adds, so what holds for a tighter wish is tried for a looser one.
#pragma once

#include <functional>

#include "planners/serving/planner.h"

namespace partita::planners::serving {

// Offers plans on that many GPUs whose pool holds, those first that should carry most, until
// `accept` takes one; whether it did. For a single service without spares in a fleet of one GPU
// model, by the pooled rule; no others are offered.
bool plan_on_gpus(const plan::ServingProblem& problem, int gpus, const Options& options,
                  const std::function<bool(plan::ServingPlan)>& accept);

}  // namespace partita::planners::serving
