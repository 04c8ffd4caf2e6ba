#include "planners/batch/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/append.h"
#include "base/nearest.h"
#include "planners/batch/best.h"
#include "planners/batch/far.h"
#include "planners/batch/fixed.h"
#include "planners/batch/forest.h"
#include "planners/batch/miso.h"

namespace partita::planners::batch {

const std::vector<Scheduler>& schedulers() {
  static const std::vector<Scheduler> kSchedulers = {
      {"best", "", "annealing and exact re-insertion from FAR's start; never longer than far",
       "Partita", best},
      {"exact", "", "the same, then branch and bound to a proof; for up to about 20 tasks",
       "Partita", exact},
      {"far", "unrefined|first",
       "family of allocations, list scheduling over repartitioning trees, moves and swaps",
       "FAR (JPDC 204, 2025), Section 3", far},
      {"miso", "per-slice|barrier", "in order, the partition with the greatest sum of speedups",
       "MISO (SoCC 2022) as in FAR, Section 6.5", miso},
      {"fixed", "LAYOUT",
       "one partition from start to end, tasks in order on the first free instance",
       "FAR, Section 6.5 (FixPart)", fixed},
      {"fixed-best", "", "the best of all fixed partitions", "FAR, Section 6.5 (FixPartBest)",
       fixed_best},
  };
  return kSchedulers;
}

Result<Chosen> find_scheduler(const std::string& name) {
  const std::size_t colon = name.find(':');
  const std::string word = name.substr(0, colon);
  std::vector<std::string> names;
  for (const Scheduler& scheduler : schedulers()) {
    names.push_back(scheduler.name);
    if (scheduler.name != word) continue;
    if (colon == std::string::npos) return Chosen{&scheduler, ""};
    if (scheduler.arguments.empty()) {
      return bad_input("", fmt::format("scheduler '{}' takes no argument, but '{}' was given", word,
                                       name.substr(colon + 1)));
    }
    return Chosen{&scheduler, name.substr(colon + 1)};
  }
  return bad_input("", fmt::format("unknown scheduler '{}'{} (there are {})", word,
                                   did_you_mean(word, names), joined(names, ", ")));
}

Outcome run(const Chosen& chosen, const plan::BatchProblem& problem, Options options) {
  options.argument = chosen.argument;
  const double before = options.cpu_ms ? options.cpu_ms() : 0;
  Outcome outcome = chosen.scheduler->schedule(problem, options);
  if (!outcome.schedule) return outcome;
  plan::BatchSchedule& schedule = *outcome.schedule;
  if (options.cpu_ms) schedule.stats.scheduling_ms = options.cpu_ms() - before;
  schedule.scheduler = chosen.scheduler->name;
  if (!chosen.argument.empty()) schedule.scheduler += ":" + chosen.argument;
  if (schedule.lower_bound == 0) {
    if (auto forest = make_forest(problem)) schedule.lower_bound = area_bound(*forest);
  }
  // Where there are deadlines the makespan is not all that counts.
  if (schedule.makespan <= schedule.lower_bound && !plan::timed(problem)) schedule.optimal = true;
  return outcome;
}

}  // namespace partita::planners::batch
