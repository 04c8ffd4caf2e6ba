#include "plan/day.h"

#include <fmt/format.h>

#include <algorithm>

namespace partita::plan {

int creations(const DayPlan& day) {
  int count = 0;
  for (const DayChange& one : day.changes)
    count += one.changes.moved + one.changes.created + one.stand_ins;
  return count;
}

int restarts(const DayPlan& day) {
  int count = 0;
  for (const DayChange& one : day.changes) count += one.changes.restarted;
  return count;
}

int most_gpus(const DayPlan& day) {
  int most = 0;
  for (const DayPeriod& period : day.periods) most = std::max(most, period.plan.objective.gpus);
  for (const DayChange& change : day.changes) most = std::max(most, change.gpus);
  return most;
}

std::string clock_text(int minute) {
  constexpr int kMinutesOfHour = 60;
  return fmt::format("{:02}:{:02}", minute / kMinutesOfHour, minute % kMinutesOfHour);
}

}  // namespace partita::plan
