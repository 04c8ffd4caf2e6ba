// Scheduling as every batch command does it: choose a scheduler by name, run it with the process's
// CPU clock, and let the judge look at its schedule before anyone sees it.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "planners/batch/scheduler.h"

namespace partita::cli {

// The names of all schedulers, in listing order.
std::vector<std::string> scheduler_names();

// The scheduler that "name" or "name:argument" means; the refusal names `flag`.
Result<planners::batch::Chosen> choose_scheduler(const std::string& flag, const std::string& name);

struct SearchFlags {
  std::uint64_t seed = 1;
  long budget = 0;  // 0: the scheduler's own default
  double time_s = 0;  // instead, as many runs as fit into this time; 0: no limit
};

// --seed and --budget.
void add_search_flags(CLI::App& command, SearchFlags& flags);
// --time.
void add_time_flag(CLI::App& command, SearchFlags& flags);

// A schedule with the judge's verdict, or the reasons why there is none.
struct Scheduled {
  std::optional<plan::BatchSchedule> schedule;
  std::vector<plan::Reason> refusals, violations;
  long budget = 0;  // the --budget that gives the same again; 0: any
};

Scheduled make_schedule(Context& context, const planners::batch::Chosen& chosen,
                        const plan::BatchProblem& problem, const SearchFlags& search);

// Refusals of the scheduler's argument rather than of the problem ("far:nonsense", a layout that
// the GPU does not have) as bad input of `flag`; nothing for all others.
std::optional<Error> misuse(const std::string& flag, const std::vector<plan::Reason>& refusals);

// What to say of a schedule that the judge refuses: our own bug.
Error internal_error(const std::string& scheduler, const std::vector<plan::Reason>& violations);

}  // namespace partita::cli
