// FAR's third phase (Algorithm 2 of Villarrubia et al., JPDC 204, 2025): tasks of the instances
// that end last are moved to, or swapped with tasks of, the instance of the same size that ends
// first, while the makespan falls. Ends are those of columns, so an instance of 3 slices at the
// start of an A100 blocks the fourth as well. Creates and destroys stay as they were until the
// schedule is made anew; the caller keeps the better one.
// Beyond the paper: on several GPUs a root is refined like any other instance, and the phase ends
// at one without parent that cannot be improved. Limit: kMaxRefinements moves and swaps.
#pragma once

#include <vector>

#include "planners/batch/forest.h"

namespace partita::planners::batch {

inline constexpr int kMaxRefinements = 100'000;

struct Refined {
  std::vector<int> assignment;  // task -> node
  int moves = 0, swaps = 0;
};

// `column_end`: when each column of the forest is free under the given assignment.
Refined refine(const Forest& forest, std::vector<int> assignment, std::vector<Nanos> column_end);

}  // namespace partita::planners::batch
