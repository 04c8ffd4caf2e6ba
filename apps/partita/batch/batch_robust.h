// Robust schedules: several candidates under the same random task times; the one that is expected
// to end first is chosen. Expectations are means of simulated runs.
#pragma once

#include <string>

#include "batch/batch_scheduling.h"
#include "context.h"
#include "forms/batch_forms.h"
#include "sim/batch.h"

namespace partita::cli {

struct Robust {
  Scheduled made;           // the chosen candidate; as make_schedule when there is none
  sim::BatchReport report;  // its simulation
  sim::BatchOptions options;
  std::string candidates;  // a line each, for people
};

// Candidates are the scheduler's schedules of kSpreadSeeds seeds and, when it is the default one,
// FAR's.
inline constexpr int kSpreadSeeds = 5;
Result<Robust> make_robust_schedule(Context& context, const planners::batch::Chosen& chosen,
                                    const plan::BatchProblem& problem, const SearchFlags& search,
                                    double spread);

// What the schedule's document says of it, in the key `robustness`.
forms::ChosenFor chosen_for(const Robust& robust);

}  // namespace partita::cli
