// Judged schedules as scripts of the executor, by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/carry/batch_script.h"
#include "plan/testing/test_halves.h"
#include "verify/judge.h"

namespace partita::carry {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Op = plan::Reconfiguration::Op;
constexpr plan::Nanos kMs = 1'000'000;

TEST(Script, HasWhatTheScheduleSays) {
  const auto judged = verify::judge(plan::test::halves_problem(), plan::test::halves_schedule());
  ASSERT_TRUE(judged);
  const auto script = make_script(plan::test::halves_problem(), *judged, {{4}, 3.0});
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
  const auto judged = verify::judge(plan::test::halves_problem(), plan::test::halves_schedule());
  plan::BatchProblem other = plan::test::halves_problem();
  other.tasks[1].release = 0;
  const auto script = make_script(other, *judged, {{0}});
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().message, "it was judged for other tasks or GPUs");
}

// Nanoseconds that the judge lets differ.
constexpr plan::Nanos kSlack = 1'000;

// The problem with a board that is reconfigured in no time, and other tasks.
plan::BatchProblem instant_problem(std::vector<plan::Task> tasks) {
  plan::BatchProblem problem = plan::test::halves_problem();
  problem.models[0].reconfiguration.clear();
  problem.tasks = std::move(tasks);
  return problem;
}
plan::Task task_of(const std::string& name, int gpcs, plan::Nanos time) {
  plan::Task task{.name = name, .times = {{}}, .command = {}, .deadline = {}, .after = {}};
  task.times[0][gpcs] = time;
  return task;
}
Result<exec::Script> made(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule,
                          const ScriptOptions& options = {{0}, {}}) {
  const auto judged = verify::judge(problem, schedule);
  EXPECT_TRUE(judged);
  return make_script(problem, judged.value(), options);
}

TEST(Script, HasEveryTermOfItsTasksAndVisits) {
  const auto script = made(plan::test::halves_problem(), plan::test::halves_schedule());
  ASSERT_TRUE(script);
  EXPECT_EQ(script->gpus[0].model, "A30-24GB");
  const exec::ScriptTask& b = script->tasks[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.visit, 2);
  EXPECT_EQ(b.timeout, std::nullopt);
  EXPECT_EQ(b.planned, (exec::Planned{3470 * kMs, 8470 * kMs}));
  EXPECT_THAT(b.after, IsEmpty());
  EXPECT_EQ(script->tasks[0].visit, 1);
  EXPECT_EQ(script->tasks[2].visit, 0);
  const hw::GpuModel& a30 = *hw::builtin_catalogue().find("A30-24GB");
  const exec::Visit& half = script->visits[2];
  EXPECT_EQ(half.gpu, 0);
  EXPECT_EQ(half.place, (hw::Placement{"2g.12gb", 2}));
  EXPECT_EQ(half.nvml_enum,
            a30.profiles[static_cast<std::size_t>(a30.profile_index("2g.12gb"))].nvml_enum);
  EXPECT_EQ(half.size, 2);
  const std::vector<exec::Change>& changes = script->gpus[0].changes;
  EXPECT_EQ(changes[0].planned, (exec::Planned{0, 130 * kMs}));
  EXPECT_EQ(changes[1].planned, (exec::Planned{3130 * kMs, 3230 * kMs}));
  EXPECT_EQ(changes[4].planned, std::nullopt);
}

// One half twice, with two tasks each: which life a task is of is told by its begin.
TEST(Script, ATaskIsOnTheInstanceThatIsThereWhenItBegins) {
  constexpr plan::Nanos s = plan::kNanosInSecond;
  std::vector<plan::Task> tasks;
  for (const char* name : {"d", "c", "b", "a"}) tasks.push_back(task_of(name, 2, s));
  const plan::BatchProblem problem = instant_problem(tasks);
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  schedule.tasks = {{{"2g.12gb", 0}, 0, "a", 1 * s, 2 * s},
                    {{"2g.12gb", 0}, 0, "b", 2 * s, 3 * s},
                    {{"2g.12gb", 0}, 0, "c", 5 * s - kSlack, 6 * s - kSlack},
                    {{"2g.12gb", 0}, 0, "d", 6 * s, 7 * s}};
  schedule.reconfigurations = {{{"2g.12gb", 0}, 0, Op::create, 5 * s, 5 * s},
                               {{"2g.12gb", 0}, 0, Op::destroy, 3 * s, 3 * s},
                               {{"2g.12gb", 0}, 0, Op::create, 1 * s, 1 * s}};
  schedule.makespan = 7 * s;
  const auto script = made(problem, schedule);
  ASSERT_TRUE(script) << to_string(script.error());
  ASSERT_EQ(script->visits.size(), 2U);
  EXPECT_THAT(script->visits[0].tasks, ElementsAre(3, 2)) << "a and b, in their order";
  EXPECT_THAT(script->visits[1].tasks, ElementsAre(1, 0)) << "c, a nanosecond early, and d";
  EXPECT_THAT(script->visits[1].after, ElementsAre(0)) << "at the same place";
}

// Of two GPUs nothing is in the way of the other's, and each has its own device.
TEST(Script, EachGpuHasItsOwnChanges) {
  constexpr plan::Nanos s = plan::kNanosInSecond;
  plan::BatchProblem problem = instant_problem({task_of("a", 4, s), task_of("b", 4, 3 * s)});
  problem.gpus = {0, 0};
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB", "A30-24GB"};
  schedule.tasks = {{{"4g.24gb", 0}, 1, "b", 0, 3 * s}, {{"4g.24gb", 0}, 0, "a", 0, s}};
  schedule.reconfigurations = {{{"4g.24gb", 0}, 1, Op::create, 0, 0},
                               {{"4g.24gb", 0}, 0, Op::create, 0, 0}};
  schedule.makespan = 3 * s;
  const auto script = made(problem, schedule, {{5, 2}, 0.5});
  ASSERT_TRUE(script) << to_string(script.error());
  EXPECT_EQ(script->gpus[0].device, 5);
  EXPECT_EQ(script->gpus[1].device, 2);
  for (const exec::ScriptGpu& gpu : script->gpus) EXPECT_EQ(gpu.changes.size(), 2U);
  EXPECT_EQ(script->visits[1].gpu, 1);
  EXPECT_THAT(script->visits[1].after, IsEmpty());
  EXPECT_EQ(script->tasks[1].visit, 1);
  EXPECT_EQ(script->tasks[1].timeout, 1'500'000'000);
  EXPECT_EQ(script->tasks[0].timeout, 500'000'000);
}

// Instances that nothing runs on go first of those that the schedule leaves.
TEST(Script, WhatTheScheduleLeavesGoesInTheOrderOfItsLastTasks) {
  constexpr plan::Nanos s = plan::kNanosInSecond;
  const plan::BatchProblem problem = instant_problem({task_of("a", 1, 9 * s), task_of("b", 1, s)});
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  schedule.tasks = {{{"1g.6gb", 0}, 0, "a", 0, 9 * s}, {{"1g.6gb", 1}, 0, "b", 0, s}};
  for (const int start : {0, 1, 2})
    schedule.reconfigurations.push_back({{"1g.6gb", start}, 0, Op::create, 0, 0});
  schedule.makespan = 9 * s;
  const auto script = made(problem, schedule);
  ASSERT_TRUE(script) << to_string(script.error());
  std::vector<std::pair<int, bool>> changes;
  for (const exec::Change& change : script->gpus[0].changes)
    changes.emplace_back(change.visit, change.create);
  EXPECT_EQ(changes, (std::vector<std::pair<int, bool>>{
                         {0, true}, {1, true}, {2, true}, {2, false}, {1, false}, {0, false}}));
}

// What the judge lets pass because it is not longer than its tolerance has no order to be done in.
TEST(Script, WhatOverlapsByTheToleranceIsRefused) {
  constexpr plan::Nanos s = plan::kNanosInSecond;
  const plan::BatchProblem problem = instant_problem({task_of("a", 4, s), task_of("b", 2, s)});
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  schedule.tasks = {{{"4g.24gb", 0}, 0, "a", 0, s}, {{"2g.12gb", 0}, 0, "b", s, 2 * s}};
  schedule.reconfigurations = {{{"4g.24gb", 0}, 0, Op::create, 0, 0},
                               {{"4g.24gb", 0}, 0, Op::destroy, s, s},
                               {{"2g.12gb", 0}, 0, Op::create, s - kSlack / 2, s - kSlack / 2}};
  schedule.makespan = 2 * s;
  const auto early = made(problem, schedule);
  ASSERT_FALSE(early);
  EXPECT_EQ(to_string(early.error()), "gpu 0 create 2g.12gb at 0: another instance is in its way");
  schedule.reconfigurations[2].begin = schedule.reconfigurations[2].end = s;
  EXPECT_TRUE(made(problem, schedule)) << "what ends when another begins goes first";
  // One that lives for no time: its end goes before its begin.
  schedule.reconfigurations.push_back({{"1g.6gb", 3}, 0, Op::create, 0, 0});
  schedule.reconfigurations.push_back({{"1g.6gb", 3}, 0, Op::destroy, 0, 0});
  const auto moment = made(problem, schedule);
  ASSERT_FALSE(moment);
  EXPECT_EQ(to_string(moment.error()), "gpu 0 destroy 1g.6gb at 3: the instance does not exist");
}

}  // namespace
}  // namespace partita::carry
