// Search over choices of a timed batch: annealing in three stages, one per member of Worth. While
// one is lowered, those before it are held at their best by a steep price, those after it join in
// with a small weight. Deterministic in the seed; stops after a number of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "planners/batch/timed_bounds.h"

namespace partita::planners::batch {

struct TimedSearch {
  std::uint64_t seed = 1;
  long steps = 0;                       // neighbours evaluated, in all
  const TimedBounds* bounds = nullptr;  // stages that reach them end early
};

struct TimedFound {
  Choice choice;
  Worth worth;
  long steps = 0;
};

// Never worse than the best of `starts`, of which there is at least one.
TimedFound search_timed(const TimedBatch& batch, const std::vector<Choice>& starts,
                        const TimedSearch& search);

}  // namespace partita::planners::batch
