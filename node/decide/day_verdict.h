// What the judge says of a plan for a day: of every period's plan under the rates of every minute
// at which some rate changes, of what is there while a change is made, and of the numbers stated.
#pragma once

#include <string>
#include <vector>

#include "decide/serving_inputs.h"
#include "plan/day.h"

namespace partita::decide {

struct DayVerdict {
  plan::ServingProblem problem;               // at the beginning of the first period
  std::vector<plan::Reason> violations = {};  // none: it is right
};

// The GPU model is that of the plans, `at` of the inputs is not looked at. `file` names the day in
// messages.
Result<DayVerdict> judge_day(Files& files, const std::string& file, const plan::DayPlan& day,
                             const ProblemFiles& inputs);

}  // namespace partita::decide
