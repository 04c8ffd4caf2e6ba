// The batch schedulers behind one table: a name, one line, the source, and a pure function.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/batch.h"

namespace partita::planners::batch {

// What a scheduler may be told besides the problem.
struct Options {
  std::uint64_t seed = 1;
  long budget = 0;  // search steps, never worse with more; 0 = the scheduler's own default
  std::string argument = {};       // what follows the colon in its name: "4g+2g+1g", "barrier"
  std::function<double()> cpu_ms;  // CPU clock for stats, injected by apps; may be empty
  std::function<void(const std::string&)> progress;  // a line now and then; may be empty
  // Asked between the runs of a search (runs.h) whether to go on from the budget spent so far to
  // the next one; may be empty. How fronts limit the time, which schedulers cannot see.
  std::function<bool(long spent, long next)> go_on;
};

// A schedule, or the reasons why there is none.
struct Outcome {
  std::optional<plan::BatchSchedule> schedule;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no schedule
  long budget = 0;  // the least Options::budget that gives this schedule again; 0: any
};

struct Scheduler {
  std::string name;
  std::string arguments;  // what may follow the colon, for help: "LAYOUT"; empty = nothing
  std::string summary;    // one line
  std::string source;     // paper or "Partita"
  Outcome (*schedule)(const plan::BatchProblem&, const Options&);
};

// All schedulers, in the order in which help lists them; the first is the default.
const std::vector<Scheduler>& schedulers();

// A scheduler by "name" or "name:argument".
struct Chosen {
  const Scheduler* scheduler = nullptr;
  std::string argument;
};
// bad_input that lists the nearest names, or says that the scheduler takes no argument.
Result<Chosen> find_scheduler(const std::string& name);

// Runs it, and stamps name, bound and CPU time on the schedule.
Outcome run(const Chosen& chosen, const plan::BatchProblem& problem, Options options);

}  // namespace partita::planners::batch
