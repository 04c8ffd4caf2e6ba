// Placement: from counts per class to instances at starts on numbered GPUs.
#pragma once

#include <optional>
#include <vector>

#include "plan/serving.h"
#include "planners/serving/fleet.h"

namespace partita::planners::serving {

// counts[service]: its instances per class. Uses at most gpus[model] GPUs of each model. With
// services that must keep apart (spread, avoid) every instance is placed by a search of
// kPlaceNodes; nothing when that finds no place or the counts do not pack.
inline constexpr int kPlaceNodes = 5'000;
std::optional<std::vector<plan::PlannedGpu>> place(const plan::ServingProblem& problem,
                                                   const std::vector<PointTable>& tables,
                                                   const Fleet& fleet,
                                                   const std::vector<Counts>& counts,
                                                   const std::vector<int>& gpus);

}  // namespace partita::planners::serving
