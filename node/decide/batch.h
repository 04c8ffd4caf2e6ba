// Batch schedules: choose a scheduler by name, let it schedule, and let the judge pass its schedule
// before anyone sees it. Pure but for the Watch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decide/made.h"
#include "planners/batch/scheduler.h"

namespace partita::decide {

// The names of all schedulers, in listing order.
std::vector<std::string> scheduler_names();

// The scheduler that "name" or "name:argument" means; the refusal names `flag`.
Result<planners::batch::Chosen> choose_scheduler(const std::string& flag, const std::string& name);

struct SearchOptions {
  std::uint64_t seed = 1;
  long budget = 0;  // 0: the scheduler's own default
  Seconds time{0};  // instead, as many runs as fit into this time; 0: no limit
};

inline constexpr long kMostBudget = 1'000'000'000'000;

// Runs a scheduler and the judge. A schedule that the judge refuses is our bug: an Error that says
// why.
Result<Made<plan::BatchSchedule>> make_schedule(const planners::batch::Chosen& chosen,
                                                const plan::BatchProblem& problem,
                                                const SearchOptions& search, const Watch& watch);

// Refusals of the scheduler's argument rather than of the problem ("far:nonsense", a layout that
// the GPU does not have) as bad input of `flag`; nothing for all others.
std::optional<Error> misuse(const std::string& flag, const std::vector<plan::Reason>& refusals);

}  // namespace partita::decide
