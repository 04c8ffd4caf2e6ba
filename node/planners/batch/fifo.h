// Which tasks come before which, and orders of tasks that keep to it.
#pragma once

#include <vector>

#include "planners/batch/physical.h"

namespace partita::planners::batch {

// Per task its predecessors and its successors, by number, each once and ascending; names in
// `after` that are no task's are passed over.
struct Precedence {
  std::vector<std::vector<int>> before, behind;
};
Precedence precedence(const std::vector<plan::Task>& tasks);

// The given order (all tasks, each once), changed as little as predecessors demand: always the
// first task of it whose predecessors have all come. Tasks that wait in a circle are left out.
std::vector<int> in_order(const Precedence& precedence, const std::vector<int>& order);
// The same; readers refuse circles.
std::vector<int> in_order(const plan::BatchProblem& problem, const std::vector<int>& order);
// The problem's own order, changed likewise.
std::vector<int> fifo_order(const plan::BatchProblem& problem);
std::vector<int> fifo_order(const Precedence& precedence);

// One visit per task in that order: never waits in a circle when predecessors come first.
Visits visits_in_order(const std::vector<int>& assignment, const std::vector<int>& order);

}  // namespace partita::planners::batch
