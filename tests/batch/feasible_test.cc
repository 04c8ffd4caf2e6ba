// Valid schedules and the judge: a change that leaves a schedule feasible gets no word.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cases.h"

namespace partita::batch_test {
namespace {

struct Change {
  std::string what;
  std::function<void(Case&, Rng&)> apply;
};

void shift_from(BatchSchedule& schedule, Nanos from, Nanos by) {
  for (ScheduledTask& t : schedule.tasks)
    if (t.begin >= from) move_to(t, t.begin + by);
  for (Reconfiguration& r : schedule.reconfigurations)
    if (r.begin >= from) move_to(r, r.begin + by);
  plan::put_in_order(schedule);
}

std::vector<Change> feasible_changes() {
  return {
      {"nothing", [](Case&, Rng&) {}},
      {"everything half a second later",
       [](Case& c, Rng&) { shift_from(c.schedule, 0, kSecond / 2); }},
      {"an idle second in between",
       [](Case& c, Rng& rng) {
         shift_from(c.schedule, some(rng, c.schedule.reconfigurations).begin, kSecond);
       }},
      {"an instance for nothing",
       [](Case& c, Rng& rng) {
         shift_from(c.schedule, 0, 2 * kSecond);
         const int gpu = static_cast<int>(rng.below(c.problem.gpus.size()));
         std::vector<Reconfiguration> list = places(c, gpu);
         Reconfiguration create = some(rng, list);
         move_to(create, 0);
         Reconfiguration destroy = c.last(gpu, Op::destroy, create.profile, create.start);
         move_to(destroy, create.end);
         c.schedule.reconfigurations.push_back(create);
         c.schedule.reconfigurations.push_back(destroy);
       }},
      {"all destroyed in the end",
       [](Case& c, Rng&) {
         for (const Reconfiguration& r : survivors(c))
           c.schedule.reconfigurations.push_back(c.last(r.gpu, Op::destroy, r.profile, r.start));
       }},
      {"half a microsecond here and there",
       [](Case& c, Rng& rng) {
         const auto jitter = [&] { return static_cast<Nanos>(rng.below(1001)) - 500; };
         for (ScheduledTask& t : c.schedule.tasks) t.begin += jitter(), t.end += jitter();
         for (Reconfiguration& r : c.schedule.reconfigurations)
           r.begin += jitter(), r.end += jitter();
       }},
      {"whole microseconds",
       [](Case& c, Rng&) {
         const auto round = [](Nanos& t) { t = (t + 500) / 1000 * 1000; };
         for (ScheduledTask& t : c.schedule.tasks) round(t.begin), round(t.end);
         for (Reconfiguration& r : c.schedule.reconfigurations) round(r.begin), round(r.end);
       }},
      {"another order of the lists",
       [](Case& c, Rng&) {
         std::ranges::reverse(c.schedule.tasks);
         std::ranges::reverse(c.schedule.reconfigurations);
       }},
  };
}

TEST(BatchFeasible, WhatIsFeasibleHasNoWord) {
  Rng rng(3);
  for (const Case& valid : valid_cases(rng, 120))
    for (const Change& change : feasible_changes()) {
      Case changed = valid;
      change.apply(changed, rng);
      for (const plan::Reason& reason : verify::verify(changed.problem, changed.schedule))
        ADD_FAILURE() << change.what << ": " << plan::to_string(reason);
    }
}

}  // namespace
}  // namespace partita::batch_test
