// Which node of the planner's forest a place on this machine is, and the other way. Pure; refers to
// nothing.
#pragma once

#include <string>
#include <vector>

#include "planners/batch/forest.h"
#include "queue/task.h"

namespace partita::queue {

// What a node of the forest is.
struct Spot : hw::Placement {
  int gpu = 0;    // of the machine, by the driver's index
  int model = 0;  // of the problem's models
  int gpcs = 0, columns = 0;
};

// Those of make_whole_forest(). Per node. `indices`: per GPU of the problem the driver's index.
std::vector<Spot> spots_of(const planners::batch::Forest& forest, const plan::BatchProblem& gpus,
                           const std::vector<int>& indices);
// The node, or -1.
int node_at(const std::vector<Spot>& spots, const Place& place);

}  // namespace partita::queue
