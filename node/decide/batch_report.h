// The comparison of batch schedulers as a table and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "decide/batch_comparison.h"

namespace partita::decide {

std::string batch_comparison_text(const plan::BatchProblem& problem,
                                  const BatchComparison& comparison);
std::string batch_comparison_json(const plan::BatchProblem& problem,
                                  const BatchComparison& comparison);

// The schedules, each under the name that was asked for.
std::vector<plan::BatchSchedule> schedules_of(const BatchComparison& comparison);

// "8 tasks on 1 GPU" of a problem.
std::string size_text(const plan::BatchProblem& problem);

// "28.434": a time in seconds.
std::string seconds_text(plan::Nanos time);

// "2 of 8 tasks miss their deadline:", then one indented line each; empty when nobody is late.
std::string late_text(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule);

}  // namespace partita::decide
