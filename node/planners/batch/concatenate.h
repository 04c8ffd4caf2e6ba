// Batches one after the other as in Section 4 of Villarrubia et al., JPDC 204 (2025): what happens
// to a batch's schedule, given as an assignment of its tasks, where it meets the one before.
//   4.1 trivial    large instances first, nothing before everything earlier has ended: after_all()
//   4.2 reversal   every other batch small instances first, each as early as its slices allow:
//                  visits_of() in the other direction, realised on the previous batch's Start
//   4.3 moves and swaps of tasks between instances of one size, so that they fit the ragged edge of
//                  the previous batch: refit()
// Deviation: the paper shifts the batch as one block until its limiting slice meets the previous
// batch; realise() lets every instance begin as early as it can, which is never later but for the
// reconfigurations.
#pragma once

#include "planners/batch/physical.h"

namespace partita::planners::batch {

inline constexpr int kMaxRefits = 10'000;  // moves and swaps of one batch

// The same start with everything free only when the last thing has ended.
Start after_all(const Forest& forest, const Start& start);

struct Refit {
  Visits visits;
  int moves = 0, swaps = 0;
};

// Moves and swaps while the end of the batch falls, by the rule of the paper's Algorithm 2: a task
// (or a difference of two) as close as possible to half the margin of the instance that takes it,
// which is the room before it becomes critical. Without any the visits are visits_of().
Refit refit(const Forest& forest, const std::vector<int>& assignment, const Start& start,
            Direction direction);

}  // namespace partita::planners::batch
