// A problem and a schedule of it by hand, for tests.
#pragma once

#include "hw/catalogue.h"
#include "plan/batch.h"

namespace partita::plan::test {

// One A30: c on the whole of it, then a and after it b on a half each.
inline BatchProblem halves_problem() {
  BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus = {0};
  problem.tasks.resize(3);
  const char* const names[] = {"a", "b", "c"};
  for (std::size_t t = 0; t < 3; ++t) {
    problem.tasks[t].name = names[t];
    problem.tasks[t].times.resize(1);
    problem.tasks[t].times[0][t == 2 ? 4 : 2] = (t == 2 ? 3 : 5) * kNanosInSecond;
  }
  problem.tasks[0].after = {"c"};
  problem.tasks[1].command = "run b";
  problem.tasks[1].release = 2 * kNanosInSecond;
  return problem;
}

inline BatchSchedule halves_schedule() {
  constexpr Nanos kMs = 1'000'000;
  using Op = Reconfiguration::Op;
  BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  schedule.tasks = {{{"4g.24gb", 0}, 0, "c", 130 * kMs, 3130 * kMs},
                    {{"2g.12gb", 0}, 0, "a", 3350 * kMs, 8350 * kMs},
                    {{"2g.12gb", 2}, 0, "b", 3470 * kMs, 8470 * kMs}};
  schedule.reconfigurations = {{{"4g.24gb", 0}, 0, Op::create, 0, 130 * kMs},
                               {{"4g.24gb", 0}, 0, Op::destroy, 3130 * kMs, 3230 * kMs},
                               {{"2g.12gb", 0}, 0, Op::create, 3230 * kMs, 3350 * kMs},
                               {{"2g.12gb", 2}, 0, Op::create, 3350 * kMs, 3470 * kMs}};
  schedule.makespan = 8470 * kMs;
  return schedule;
}

}  // namespace partita::plan::test
