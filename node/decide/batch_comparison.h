// Comparison of batch schedulers: each on the same problem, judged, and measured against the best
// lower bound that any of them proves and against FAR. Pure but for the Watch.
#pragma once

#include <string>
#include <vector>

#include "decide/batch.h"

namespace partita::decide {

struct BatchContestant {
  std::string name;  // as it was asked for, "fixed:4g+2g+1g"
  planners::batch::Chosen chosen;
};

// Names of schedulers between commas.
Result<std::vector<BatchContestant>> parse_batch_contestants(const std::string& flag,
                                                             const std::string& text);

// best, far, miso and fixed-best; exact as well for batches that it proves in no time.
std::string default_contestants(const plan::BatchProblem& problem);

// What can be counted in a schedule that the judge accepts.
struct BatchFigures {
  int creates = 0, destroys = 0;
  double utilisation = 0;  // share of the GPUs' compute slices that run tasks until the last end
  Seconds mean_end;
};
BatchFigures figures_of(const plan::BatchProblem& problem,
                        const plan::Judged<plan::BatchSchedule>& schedule);

struct BatchStanding {
  std::string name;
  Made<plan::BatchSchedule> made;
};

struct BatchComparison {
  std::vector<BatchStanding> standings;
  plan::Nanos lower_bound = 0;  // the largest that a scheduler proves; 0: none
  plan::Nanos far = 0;          // FAR's makespan; 0: it is not among them
};

Result<BatchComparison> compare_schedulers(const plan::BatchProblem& problem,
                                           const std::vector<BatchContestant>& contestants,
                                           const SearchOptions& search, const Watch& watch);

}  // namespace partita::decide
