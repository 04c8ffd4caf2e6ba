// Onto: a batch planned onto the ragged edge that earlier work leaves behind, by annealing over
// assignments of tasks to spots (seam.h). When more batches follow, what counts in the long run is
// the area lost below the edge; a ragged edge loses none by itself but is hard to plan onto. So the
// aim is the sum over columns of d + kRagged * d^2 / s, where d is how far the column ends beyond
// the level that the tasks' least areas alone would reach, and s the height of the batch by least
// areas, or kFewTasks tasks of mean least area above each other if that is higher. The last
// batch ends early instead: 0.9 end + 0.1 mean column end. Deterministic: same input and seed, same
// visits.
#pragma once

#include <cstdint>

#include "planners/batch/seam.h"

namespace partita::planners::batch {

inline constexpr double kRagged = 0.2;
inline constexpr double kFewTasks = 2.5;

// What a batch is planned for: more batches follow, or none.
enum class Outlook { more, last };

class Aim {
 public:
  Aim(const Forest& forest, const Start& start, Outlook outlook);

  double level() const { return level_; }    // for Seam and edge_of
  double height() const { return height_; }  // of the batch by least areas
  double cost(const Seam& seam) const;
  double cost(const Edge& edge) const;

 private:
  Outlook outlook_;
  double columns_ = 1, level_ = 0, height_ = 1, tolerance_ = 1;
};

// Visits for all tasks of the forest, each of which fits some node.
Visits plan_onto(const Forest& forest, const Start& start, const Aim& aim, long steps,
                 std::uint64_t seed);

}  // namespace partita::planners::batch
