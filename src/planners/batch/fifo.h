// Orders of tasks in which no task comes before its predecessors, for FAR and the baselines.
#pragma once

#include <vector>

#include "planners/batch/physical.h"

namespace partita::planners::batch {

// Per task its predecessors, by number; names in `after` that are no task's are passed over.
std::vector<std::vector<int>> predecessors(const plan::BatchProblem& problem);

// The given order (all tasks, each once), changed as little as predecessors demand: always the
// first task of it whose predecessors have all come.
std::vector<int> in_order(const plan::BatchProblem& problem, const std::vector<int>& order);
// The problem's own order, changed likewise.
std::vector<int> fifo_order(const plan::BatchProblem& problem);

// One visit per task in that order: never waits in a circle when predecessors come first.
Visits visits_in_order(const std::vector<int>& assignment, const std::vector<int>& order);

}  // namespace partita::planners::batch
