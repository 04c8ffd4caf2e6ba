// Annealing over assignments of tasks to nodes: a task moves to another node, or two tasks change
// places. The energy is the longest column plus a share of the mean column, so that space is not
// wasted where it does not show yet. Deterministic in the seed; stops after a number of steps.
#pragma once

#include <cstdint>
#include <vector>

#include "planners/batch/loads.h"

namespace partita::planners::batch {

struct AnnealOptions {
  std::uint64_t seed = 1;
  long steps = 100'000;
  double hot = 0.1;     // first temperature, as a share of the mean time of a task at the start
  double cold = 0.001;  // last one
  double area_share = 2;
};

// The best assignment met, by length of the longest column; never longer than `start`, a complete
// assignment.
std::vector<int> anneal(const Forest& forest, const std::vector<int>& start,
                        const AnnealOptions& options);

// The same with real lengths (played.h) in place of the longest column: slower, for the finish.
std::vector<int> anneal_played(const Forest& forest, const std::vector<int>& start,
                               const AnnealOptions& options);

}  // namespace partita::planners::batch
