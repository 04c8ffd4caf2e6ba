// What FAR and the baselines share: a problem opened or refused, and orders of tasks in which no
// task comes before its predecessors.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planners/batch/forest.h"
#include "planners/batch/physical.h"
#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

// An Outcome that is one refusal.
Outcome refused(std::string constraint, std::string subject, std::string detail);

// A forest every task of which fits some node, or why there is none: gpu_model, does_not_fit.
struct Opened {
  std::optional<Forest> forest;
  Outcome refusal;
};
Opened open_problem(const plan::BatchProblem& problem);

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
