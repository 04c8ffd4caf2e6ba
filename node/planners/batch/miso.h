// MISO-opt (Section 6.5 of FAR: Villarrubia et al., JPDC 204, 2025, after MISO, SoCC 2022): tasks
// in FIFO order, round after round. A round is the maximal layout P and the placing of the next |P|
// tasks on its instances, one each, with the greatest sum of speedups over one slice.
// Readings of what the paper leaves open, and deviations:
// - barrier: a round begins when all tasks of the one before have ended; per-slice (default): an
//   instance begins as soon as its own slices are free, so rounds overlap.
// - A task that does not fit one slice counts as if it scaled linearly up to its smallest size. A
//   layout that cannot take the next |P| tasks takes as many as it can, in order.
// - An instance that exists already is used again. Creates and destroys take their time; the
//   authors' are free, see miso_ideal().
// - Several GPUs: the one that is free first and has room for the next task gets the next round.
// - Release times are waited for and predecessors come first.
#pragma once

#include "planners/batch/scheduler.h"

namespace partita::planners::batch {

enum class MisoReading { per_slice, barrier };

// The makespan of MISO's decisions if creates and destroys took no time, release times and
// predecessors aside: no schedule, a figure for tables. Every task must fit somewhere.
plan::Nanos miso_ideal(const plan::BatchProblem& problem, MisoReading reading);

// The scheduler `miso`. Argument: "" or "per-slice", "barrier".
Outcome miso(const plan::BatchProblem& problem, const Options& options);

}  // namespace partita::planners::batch
