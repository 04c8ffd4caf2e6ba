// Plans for a day whose rates change: one per period, each made from the one before it with the
// fewest GPUs and then the fewest new instances, and compared with a plan for the peak. Everything
// passes the judge: every plan under its period's rates, and what is there while a change is made
// under the rates before it. A state in between has more instances than one of these, which carries
// no less. Pure but for the Watch.
#pragma once

#include <optional>
#include <vector>

#include "decide/serving.h"
#include "plan/day.h"

namespace partita::decide {

// The problem as it is at this minute of the day: services with rates of the day have that of the
// minute, and no others.
plan::ServingProblem at_minute(plan::ServingProblem problem, int minute);

struct DayOptions {
  PlanOptions plan;
  Seconds change_time{300};  // for either half of a change
};

struct MadeDay {
  std::optional<plan::DayPlan> day;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no day
};

// Bad input: a period that is shorter than the halves of changes at its ends.
Result<MadeDay> plan_day(const plan::ServingProblem& problem, const DayOptions& options);

}  // namespace partita::decide
