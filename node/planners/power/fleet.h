// Power plans: which GPUs of a fleet are on, at which clock, who has which share of them, so that
// every service keeps its SLO and the fleet takes the least power. A service may be split over
// GPUs, one share on each. One GPU without a cap is solved exactly; a fleet by a linear programme
// over patterns (columns as pricing finds them), whose dual gives the bound (fleet_master.h), and a
// search that rounds its solution (fleet_search.h).
#pragma once

#include <optional>
#include <vector>

#include "plan/power.h"
#include "plan/reason.h"

namespace partita::power {

struct FleetOptions {
  int rounds = 30;     // of the search: GPUs emptied and filled anew
  double gap = 0.001;  // the search stops there
  int column_rounds = 400;
};

struct FleetOutcome {
  std::optional<plan::PowerPlan> plan;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no plan
};

// Policy `exact`. Refused: a service that no setting serves, more than the fleet carries.
FleetOutcome plan_fleet(const plan::PowerProblem& problem, const FleetOptions& options);

}  // namespace partita::power
