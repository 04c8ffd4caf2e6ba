// Robust schedules: several candidates under the same random task times; the one that is expected
// to end first is chosen. Expectations are means of simulated runs.
#pragma once

#include <string>

#include "decide/batch.h"
#include "sim/batch.h"

namespace partita::decide {

struct Robust {
  Made<plan::BatchSchedule> made;  // the chosen candidate; as make_schedule when there is none
  sim::BatchReport report;         // its simulation
  sim::BatchOptions options;
  std::string candidates;  // a line each, for people
};

// Candidates are the scheduler's schedules of kSpreadSeeds seeds and, when it is the default one,
// FAR's.
inline constexpr int kSpreadSeeds = 5;
Result<Robust> make_robust_schedule(const planners::batch::Chosen& chosen,
                                    const plan::BatchProblem& problem, const SearchOptions& search,
                                    double spread, const Watch& watch);

}  // namespace partita::decide
