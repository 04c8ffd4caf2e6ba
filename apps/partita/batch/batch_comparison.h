// The comparison of batch schedulers as a table and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "decide/batch_comparison.h"

namespace partita::cli {

std::string batch_comparison_text(const plan::BatchProblem& problem,
                                  const decide::BatchComparison& comparison);
std::string batch_comparison_json(const plan::BatchProblem& problem,
                                  const decide::BatchComparison& comparison);

// The schedules, each under the name that was asked for.
std::vector<plan::BatchSchedule> schedules_of(const decide::BatchComparison& comparison);

}  // namespace partita::cli
