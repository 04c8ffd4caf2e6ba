// Batches with releases, deadlines, priorities and predecessors. In this order: the least sum of
// priority x lateness, the least makespan, the least sum of priority x end. List schedules by many
// rules, then annealing over the order and the nodes of the tasks. No proof except where the bounds
// are met. Deterministic; the default budget falls with the number of tasks.
#pragma once

#include <vector>

#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

// For problems with plan::timed(), and right for all others.
Outcome timed(const plan::BatchProblem& problem, const Options& options);

// The same, also starting from these assignments (task -> node of make_forest(problem)), played in
// tree order: never worse than any of them.
Outcome timed_from(const plan::BatchProblem& problem, const Options& options,
                   const std::vector<std::vector<int>>& assignments);

}  // namespace partita::planners::batch
