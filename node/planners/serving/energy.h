// The plan of the fewest expected watts: GPUs that are on, and what their instances burn at the
// services' rates (plan::GpuPower). GPUs that the plan leaves out are off.
//
// 1. The linear master (master.h) over covers with their least watts (cover.h): a bound,
//    and prices of the shapes.
// 2. For every number of GPUs that the bound leaves open, the same with these GPUs: bounds, covers.
// 3. With the GPUs fixed, covers that fit onto them (search.h): a local search, then, where they
//    are few, all of them. Least watts, then fewest GPUs.
// The bound holds for every plan whose full batches end within the SLOs, whatever shares it takes.
// Services that keep apart: what is found has a place (place.h), the bound knows nothing of them.
// Limits: node budget; GPUs that may be lost are survive.h's.
#pragma once

#include <vector>

#include "planners/serving/planner.h"
#include "planners/serving/points.h"

namespace partita::planners::serving {

// Every service may use any one of the modes. GPUs, objective and explanation, as plan_exact()
// (exact.h) of the same; none where no plan was found: the refusal is left to that.
struct EnergyOutcome {
  std::optional<plan::ServingPlan> plan;
  double bound = 0;  // watts that no plan goes below
};
EnergyOutcome plan_energy(const plan::ServingProblem& problem,
                          const std::vector<PointTables>& modes, const Options& options);

}  // namespace partita::planners::serving
