// The strongest schedulers. `best` (the default): FAR, and a search over assignments that starts
// from FAR's and a greedy one (search.h), finished on real times (played.h); never longer than FAR.
// `exact`: the same with branch and bound to the end, for small batches. Both state a bound that no
// schedule at all undercuts, whatever its order and however often instances come and go: instances
// that cover one slice exclude each other, so the slice is busy with their tasks, creates and all
// destroys but one. Once the shortest columns are proven, the assignments that remain are tried on
// real times, with the waiting that each cannot avoid (played.h). What gap is left is stated.
// Batches with times of their own go to timed.h. Tasks run by Smith's rule within an instance,
// which costs no makespan.
#pragma once

#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

// Options::budget: annealing moves; a search node counts as several.
Outcome best(const plan::BatchProblem& problem, const Options& options);

// Options::budget: search nodes of the proof. Any size is taken; more than 22 tasks are not
// proven.
Outcome exact(const plan::BatchProblem& problem, const Options& options);

}  // namespace partita::planners::batch
