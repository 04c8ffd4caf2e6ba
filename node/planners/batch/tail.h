// The waiting tail of a queue, planned onto what runs now: which task goes where next. Candidates
// are, always, the tasks in their order on each fixed layout of the GPUs (whatever is free first
// takes the next one), list schedules by several rules, and the plan before; then a search by
// changes of single tasks. The plan taken is never later, and its last end never later, than the
// shortest of those in order on a fixed layout, by the decoder's own times. Tasks come in the
// queue's order: the first one is its head. Deterministic; stops after a number of appended tasks.
#pragma once

#include <string>
#include <vector>

#include "planners/batch/timed_decoder.h"

namespace partita::planners::batch {

// What a plan is to be good for, besides lateness, which comes first: weights of the mean end, of
// the last end, and of the slices that tasks take beyond their least area, in seconds of the whole
// machine.
struct TailAim {
  double finishing = 1;
  double makespan = 1;
  double area = 0;
  // Of the last end after that moment, in nanoseconds, beside its weight as any other.
  double beyond = 0;
  Nanos after = 0;
};

struct TailOptions {
  TailAim aim = {};
  long appends = 100'000;  // tasks appended by the search; about 50 ns each
  std::uint64_t seed = 1;
  const Choice* before = nullptr;  // the plan before, as far as it goes; may be null
  // The batch with other times, as they may turn out: a plan is worth what it is worth on average
  // over them. Empty: the batch's own times are exact.
  std::vector<TimedBatch> scenarios = {};
  // More of these, which the search does not see: where tasks in some order on a fixed layout, each
  // to whatever is free first as times turn out, are worth more in them than the plan, they are it.
  std::vector<TimedBatch> draws = {};
  bool follow = false;  // it is taken as it is, with the times that it has now
};

struct TailPlan {
  Choice choice;
  Physical physical;
  Worth worth;
  // The last end in order on the best fixed layout, on average over the scenarios; kNever: no
  // layout has room for all.
  Nanos in_order = kNever;
  std::string from;  // which candidate it came from
  long plays = 0;    // schedules tried
};

// Every task must fit a node whose columns are free some time.
TailPlan plan_tail(const TimedBatch& batch, const TailOptions& options);

// The maximal sets of nodes that can exist together, the same on all GPUs of a model, one of each
// kind of sizes, as marks per node. Of several models one is varied at a time.
std::vector<std::vector<char>> fixed_layouts(const Forest& forest);

}  // namespace partita::planners::batch
