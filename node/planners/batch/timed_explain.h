// Sentences about a timed schedule: how late it is, against what no schedule can undercut, and for
// each late task what made it late.
#pragma once

#include <string>
#include <vector>

#include "planners/batch/timed_bounds.h"

namespace partita::planners::batch {

inline constexpr std::size_t kMaxExplainedTasks = 20;

std::vector<std::string> explain_timed(const plan::BatchProblem& problem, const TimedBatch& batch,
                                       const TimedBounds& bounds, const Physical& physical);

}  // namespace partita::planners::batch
