// Predictions about a change: how long its steps take, who is affected and for how long, and why it
// is as it is. Internal to actuate.
#pragma once

#include <map>
#include <string>

#include "act/capacity.h"
#include "act/change.h"

namespace partita::actuate {

// How long the driver takes for a step; 0 where the catalogue has no figure, and for steps that are
// no driver calls. A whole creation or destruction is counted on the GPU instance.
Seconds driver_time(const hw::GpuModel& model, const std::string& profile, Step::Kind kind);

// Fills in predicted, affected and explanation from the steps; `gpcs` by profile name.
void predict(Change& change, const Capacities& capacities, const std::map<std::string, int>& gpcs,
             double min_available);

}  // namespace partita::actuate
