// Plans for a day whose rates change: one per period, made from the one before it with the fewest
// GPUs and then the fewest new instances -- or the same for several periods, made for the highest
// of their rates; never changing is always one of the days that are looked at. The one with the
// least day_cost() is taken. Everything passes the judge: every plan under its period's rates, and
// what is there while a change is made under the rates before it. A state in between has more
// instances than one of these, which carries no less. Pure but for the Watch.
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
  // A day that comes again, in whose local time the rates are; the watts of all GPUs are known
  // then. Without one GPU-hours are counted, whenever they are.
  plan::Tariff tariff = {};
};

// What a day costs, in GPU-hours: those of its plans and changes, a quarter for every instance that
// a change makes, restarts or stands in, and a whole day for every GPU that is in use at any time
// beyond those of one plan for all peaks. By a tariff, those of plans are DayPeriod's weighed ones.
inline constexpr double kMoveHours = 0.25;
double day_cost(const plan::DayPlan& day);

struct MadeDay {
  std::optional<plan::DayPlan> day;
  std::vector<plan::Reason> refusals;  // not empty exactly when there is no day
};

// Bad input: a period that is shorter than the halves of changes at its ends; a tariff with dates,
// or in whose mean hour energy is free.
Result<MadeDay> plan_day(const plan::ServingProblem& problem, const DayOptions& options);

}  // namespace partita::decide
