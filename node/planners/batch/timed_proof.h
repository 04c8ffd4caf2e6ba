// Proof of timed batches: branch and bound over all schedules of an empty machine, whatever begins
// first being decided first. Tasks, creates and destroys are decided one by one, each at the
// earliest time that what was decided before leaves, so that every schedule is met that cannot be
// moved to the left; one of these is best. A state is left where bounds say that nothing better
// follows, and where one that was met before has done and has the same and is nowhere later.
// Deterministic; stops after a number of states.
#pragma once

#include <optional>

#include "planners/batch/timed_bounds.h"

namespace partita::planners::batch {

struct ProofAim {
  Worth than = {};            // what is to be undercut: lateness, then makespan
  bool with_lateness = true;  // else only the makespan counts, however late tasks are
  long states = 100'000;      // at most
};

struct TimedProof {
  bool complete = false;  // searched to the end
  std::optional<Physical> better =
      {};  // the best that is better; complete: and there is none better
  long states = 0;
};

// Whether prove() takes the batch: few tasks and nodes, one instance per task, an empty machine.
bool provable(const TimedBatch& batch);

TimedProof prove(const TimedBatch& batch, const TimedBounds& bounds, const ProofAim& aim);

}  // namespace partita::planners::batch
