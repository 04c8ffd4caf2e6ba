// From a judged schedule to what the batch executor is to do, and from what it did back to a
// schedule, so that the pictures and the judge of schedules serve for real runs too. Pure.
#pragma once

#include <optional>
#include <vector>

#include "act/batch/run_report.h"
#include "act/batch/script.h"
#include "plan/batch.h"
#include "plan/judged.h"

namespace partita::carry {

struct ScriptOptions {
  std::vector<int> devices;                   // per GPU of the problem its index on the node
  std::optional<double> timeout_factor = {};  // of the planned time; nothing: no timeouts
};

// Refused where the schedule was judged for another problem.
Result<exec::Script> make_script(const plan::BatchProblem& problem,
                                 const plan::Judged<plan::BatchSchedule>& schedule,
                                 const ScriptOptions& options);

// What took place, as a schedule with the times at which it did. Tasks are those that ran; the GPUs
// are those of `planned`.
plan::BatchSchedule realised(const exec::Script& script, const exec::RunReport& report,
                             const plan::BatchSchedule& planned);

}  // namespace partita::carry
