// What no schedule of a timed batch can undercut, per task and in all: paths of least times over
// releases, creations and predecessors, and areas between releases and the paths behind. Rigorous:
// reconfigurations are only counted where every schedule has them.
#pragma once

#include <vector>

#include "planners/batch/timed_decoder.h"

namespace partita::planners::batch {

struct TimedBounds {
  std::vector<Nanos> ready;  // per task: released, and its predecessors ended, never earlier
  std::vector<Nanos> end;    // per task: never ends earlier
  std::vector<Nanos> least;  // per task: its shortest time
  std::vector<Nanos> tail;   // per task: least times of its longest chain of successors
  Nanos makespan = 0;
  Wide lateness = 0;  // weight x nanoseconds
};

// Every task must fit some node.
TimedBounds timed_bounds(const TimedBatch& batch);

}  // namespace partita::planners::batch
