// Oracles for tests of batches that share nothing with the schedulers, and with the judge only hw:
// random valid schedules, the bound of assignments by trying all of them and by CBC, and the true
// optimum of tiny batches by trying all schedules. Random batches are in random_batch.h.
#pragma once

#include <optional>

#include "base/rng.h"
#include "plan/batch.h"
#include "random_batch.h"

namespace partita::batch_test {

// A valid, usually bad schedule: each task on a random instance, gaps in between, instances created
// and destroyed again. With `all_profiles` also on +me, -me and double-memory instances.
plan::BatchSchedule random_schedule(Rng& rng, const plan::BatchProblem& problem, bool all_profiles);

// The least, over all assignments of tasks to instances, of the longest slice: its load, all
// creates of used instances that cover it, and their destroys but the largest. No schedule is
// shorter. Tries all assignments: for 5 tasks or so.
plan::Nanos bound_by_brute_force(const plan::BatchProblem& problem);

// The same in seconds by CBC; nothing when CBC is not built in or does not finish in time.
std::optional<double> bound_by_cbc(const plan::BatchProblem& problem);

// The shortest of all schedules with one reconfiguration at a time, in any order, instances created
// again as often as it helps. For 4 tasks on an A30, 3 elsewhere; no releases, no predecessors.
plan::Nanos optimum(const plan::BatchProblem& problem);

}  // namespace partita::batch_test
