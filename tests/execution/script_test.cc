// Judged schedules as scripts of the executor, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/carry/batch_script.h"
#include "hw/catalogue.h"
#include "verify/judge.h"

namespace partita::execution_tests {
namespace {

using testing::ElementsAre;
using Op = plan::Reconfiguration::Op;
constexpr plan::Nanos kMs = 1'000'000;

// One A30: c on the whole of it, then a and after it b on a half each.
plan::BatchProblem halves_problem() {
  plan::BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus = {0};
  problem.tasks.resize(3);
  const char* const names[] = {"a", "b", "c"};
  for (std::size_t t = 0; t < 3; ++t) {
    problem.tasks[t].name = names[t];
    problem.tasks[t].times.resize(1);
    problem.tasks[t].times[0][t == 2 ? 4 : 2] = (t == 2 ? 3 : 5) * plan::kNanosInSecond;
  }
  problem.tasks[0].after = {"c"};
  problem.tasks[1].command = "run b";
  problem.tasks[1].release = 2 * plan::kNanosInSecond;
  return problem;
}

plan::BatchSchedule halves_schedule() {
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  schedule.tasks = {{"c", 0, "4g.24gb", 0, 130 * kMs, 3130 * kMs},
                    {"a", 0, "2g.12gb", 0, 3350 * kMs, 8350 * kMs},
                    {"b", 0, "2g.12gb", 2, 3470 * kMs, 8470 * kMs}};
  schedule.reconfigurations = {{0, Op::create, "4g.24gb", 0, 0, 130 * kMs},
                               {0, Op::destroy, "4g.24gb", 0, 3130 * kMs, 3230 * kMs},
                               {0, Op::create, "2g.12gb", 0, 3230 * kMs, 3350 * kMs},
                               {0, Op::create, "2g.12gb", 2, 3350 * kMs, 3470 * kMs}};
  schedule.makespan = 8470 * kMs;
  return schedule;
}

TEST(Script, HasWhatTheScheduleSays) {
  const auto judged = verify::judge(halves_problem(), halves_schedule());
  ASSERT_TRUE(judged);
  const auto script = carry::make_script(halves_problem(), *judged, {{4}, 3.0});
  ASSERT_TRUE(script);
  ASSERT_EQ(script->gpus.size(), 1u);
  EXPECT_EQ(script->gpus[0].device, 4);
  EXPECT_EQ(script->planned_makespan, 8470 * kMs);
  ASSERT_EQ(script->visits.size(), 3u);
  EXPECT_THAT(script->visits[0].tasks, ElementsAre(2));
  EXPECT_THAT(script->visits[1].after, ElementsAre(0));
  EXPECT_THAT(script->visits[2].after, ElementsAre(0));
  // Create and destroy the whole, create both halves; what the schedule leaves goes at the end,
  // first the one whose task ends first.
  std::vector<std::pair<int, bool>> changes;
  for (const exec::Change& change : script->gpus[0].changes)
    changes.emplace_back(change.visit, change.create);
  EXPECT_EQ(changes, (std::vector<std::pair<int, bool>>{
                         {0, true}, {0, false}, {1, true}, {2, true}, {1, false}, {2, false}}));
  EXPECT_THAT(script->tasks[0].after, ElementsAre(2));
  EXPECT_EQ(script->tasks[1].command, "run b");
  EXPECT_EQ(script->tasks[1].release, 2 * plan::kNanosInSecond);
  EXPECT_EQ(script->tasks[1].timeout, 15 * plan::kNanosInSecond);
}

TEST(Script, IsNotMadeOfAScheduleForOtherTasks) {
  const auto judged = verify::judge(halves_problem(), halves_schedule());
  plan::BatchProblem other = halves_problem();
  other.tasks[1].release = 0;
  const auto script = carry::make_script(other, *judged, {{0}});
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().message, "it was judged for other tasks or GPUs");
}

}  // namespace
}  // namespace partita::execution_tests
