// Expected watts: of points and instances, of covers (cover.h), of plans.
#pragma once

#include <string>
#include <vector>

#include "planners/serving/fleet.h"

namespace partita::planners::serving {

inline constexpr double kWattsRounding = 1e-9;  // of the watts, taken off every bound

// Joules of a request on an instance at a measured point, when it is always busy.
struct PointAt {
  int gpcs = 0, batch = 0, processes = 0;
};
double joules_per_request(const plan::FleetEntry& entry, const std::string& model,
                          const PointAt& point);

// What a service's requests cost, class by class.
Burn burn_of(const plan::ServingProblem& problem, const std::vector<PointTables>& modes,
             const Fleet& fleet, std::size_t service);

// Expected watts of a plan of this problem, its service rows and objective not looked at.
double expected_watts(const plan::ServingProblem& problem, const plan::ServingPlan& plan);
// The plan with watts and bound stated; the goal is the problem's.
void state_watts(const plan::ServingProblem& problem, double bound, plan::ServingPlan& plan);

}  // namespace partita::planners::serving
