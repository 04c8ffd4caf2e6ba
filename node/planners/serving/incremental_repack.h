// Repacking: from counts per service and class to a deployment that keeps as much as can be seen
// greedily. GPU after GPU keeps the most wanted instances with which the rest still packs onto the
// GPUs that are left; packing is decided by facets, so the last GPU always works out.
#pragma once

#include <optional>
#include <vector>

#include "planners/serving/incremental_state.h"

namespace partita::planners::serving {

// A deployment with exactly these counts (spare ones left out) on at most gpus[model] GPUs of each
// model; nothing when they do not pack, or when services that keep apart would meet.
std::optional<Deployment> repack(const Site& site, const std::vector<Counts>& counts,
                                 const std::vector<int>& gpus);

// The deployment of a plan made without regard to what runs, its GPUs matched with those of the
// site so that the most is kept: an assignment, exact up to kMaxAssigned GPUs, else greedy.
inline constexpr std::size_t kMaxAssigned = 300;
Deployment matched(const Site& site, const std::vector<plan::PlannedGpu>& gpus);

}  // namespace partita::planners::serving
