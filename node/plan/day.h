// DayPlan: a plan for every period of a day in which the rates stay the same, and what changes from
// each to the next. Values; they are made by decide/day.h. The day repeats: the first period
// follows the last one.
#pragma once

#include <string>
#include <vector>

#include "plan/changes.h"
#include "plan/serving.h"
#include "plan/tariff.h"

namespace partita::plan {

struct DayPeriod {
  int from = 0, to = 0;  // minutes of the day; to <= from: over midnight, or the whole day
  double hours() const { return (to > from ? to - from : to - from + kMinutesOfDay) / 60.0; }
  Rps rate;  // of all services
  ServingPlan plan;
  // By a tariff: what the plan is expected to take in the period; and its GPU-hours as they were
  // weighed, one being what a GPU of the plan for the peak costs in an hour of the day's mean rate.
  std::optional<EnergyBill> energy = {};
  double weighed_gpu_hours = 0;
  bool operator==(const DayPeriod&) const = default;
};

// Whether a minute of the day is in the period.
inline bool within(const DayPeriod& period, int minute) {
  return period.to > period.from ? minute >= period.from && minute < period.to
                                 : minute >= period.from || minute < period.to;
}

// From the plan of the period before into that of a period. Before the rates change, everything new
// is created, and what is in its way is stood in for elsewhere; after they have changed, the rest
// goes. So there is never less than the old plan before, nor less than the new one after.
struct DayChange {
  int at = 0;  // minute of the day at which the rates change
  Changes changes;
  int stand_ins = 0;  // instances that exist for the time of the change alone
  int gpus = 0;       // in use while it is made
  bool operator==(const DayChange&) const = default;
};

struct DayPlan {
  std::vector<DayPeriod> periods;  // in the order of the day; at least one
  std::vector<DayChange> changes;  // into each period, in their order; none of one period
  Seconds change_time;             // for either half of a change
  int peak_gpus = 0;               // of the plan for the highest rate of every service
  bool peak_optimal = false;
  double gpu_hours = 0;       // of a day, with the GPUs that changes take
  double peak_gpu_hours = 0;  // of a day under the plan for the peak
  std::optional<EnergyBill> energy = {}, peak_energy = {};  // the same of energy, by a tariff
  bool operator==(const DayPlan&) const = default;
};

// Instances that a day's changes create: moved, created and stand-ins; and those restarted.
int creations(const DayPlan& day);
int restarts(const DayPlan& day);

// The most GPUs in use at any time, changes included.
int most_gpus(const DayPlan& day);

// "08:00".
std::string clock_text(int minute);

}  // namespace partita::plan
