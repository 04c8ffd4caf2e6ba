// Where the search of timed batches begins: list scheduling. At every step the most urgent task, by
// one of several rules, goes to the node where it ends earliest, its waste of slices counted with
// one of several weights.
#pragma once

#include <vector>

#include "planners/batch/timed_bounds.h"

namespace partita::planners::batch {

enum class Urgency {
  path,     // the longest chain of least times from the task on first
  due,      // the earliest deadline first, of a task or of those behind it
  slack,    // the earliest latest begin: deadline less times, of a task or of those behind it
  smith,    // the least shortest time per priority first
  release,  // first come, first served
  area,     // the largest least area first
};
inline constexpr Urgency kUrgencies[] = {Urgency::path,  Urgency::due,     Urgency::slack,
                                         Urgency::smith, Urgency::release, Urgency::area};
inline constexpr double kWasteWeights[] = {1, 0.5, 2, 0, 4};

struct ListRule {
  Urgency urgency = Urgency::path;
  double waste = 1;      // column time above the least area, per column of the GPU, counts so much
  bool waiting = false;  // a more urgent task is waited for, even when another one is ready
};

// One choice by one rule. O(n x GPUs x sizes).
Choice list_schedule(const TimedBatch& batch, const TimedBounds& bounds, const ListRule& rule);

// An assignment in tree order, larger instances first, longest tasks first, as far as predecessors
// allow.
Choice choice_of(const TimedBatch& batch, const std::vector<int>& assignment);

}  // namespace partita::planners::batch
