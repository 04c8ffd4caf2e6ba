// Rolling out: what a first decision about waiting tasks is worth where more comes by chance. Each
// candidate is played in many futures, drawn as tasks came lately; what comes in them is handed out
// as it comes by a simple rule, and the candidate is worth what it is worth on average with the
// best of these rules. The candidates are the plan at hand, the rules themselves, and changes of
// single tasks of the better of these. Bertsekas, Castanon: Rollout Algorithms for Stochastic
// Scheduling Problems, J. Heuristics 5 (1999). Pure.
#pragma once

#include <vector>

#include "planners/batch/timed_decoder.h"

namespace partita::planners::batch {

struct RolloutOptions {
  int plays = 2'000;  // after so many no more changes are tried; the rules are, always
  // What a second of a column is worth after `horizon`, in seconds of a task's end.
  double price = 0;
  Nanos horizon = kNever;
  Nanos late = kNever;  // no task ends both after that and later than by the plan at hand
};

// `choice` is of the first tasks of each future; the others come later, in the order of their
// numbers. Returns what is better in them than it, or it. All futures have as many tasks.
Choice rolled_out(const std::vector<TimedBatch>& futures, const Choice& choice,
                  const RolloutOptions& options);

}  // namespace partita::planners::batch
