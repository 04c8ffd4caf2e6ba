#include "plan/day.h"

#include <fmt/format.h>

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

std::string clock_text(int minute) {
  constexpr int kMinutesOfHour = 60;
  return fmt::format("{:02}:{:02}", minute / kMinutesOfHour, minute % kMinutesOfHour);
}

}  // namespace partita::plan
