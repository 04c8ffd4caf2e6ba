#include "queue/times.h"

#include <gtest/gtest.h>

#include "hw/catalogue.h"
#include "queue/shares.h"
#include "queue/task_forms.h"

namespace partita::queue {
namespace {

const hw::GpuModel& model() { return *hw::builtin_catalogue().find("A100-80GB"); }
Spec spec_of(const std::string& user) {
  Spec spec;
  spec.name = "a";
  spec.command = "x";
  spec.user = user;
  return spec;
}
double seconds(const Times::Estimate& estimate, int gpcs) {
  return static_cast<double>(estimate.times[gpcs]) / 1e9;
}

TEST(Times, TwoSizesGiveTheLawOfAll) {
  Times times;
  times.learn({"u", "a", model().name, 1}, 110);  // 10 + 100 / size
  times.learn({"u", "a", model().name, 4}, 35);
  const auto estimate = times.estimate(spec_of("u"), model());
  EXPECT_TRUE(estimate.measured);
  EXPECT_NEAR(seconds(estimate, 2), 60, 1e-6);
  EXPECT_NEAR(seconds(estimate, 7), 10 + 100.0 / 7, 1e-6);
  // Another user's task of this name is another task.
  EXPECT_FALSE(times.estimate(spec_of("v"), model()).measured);
}

TEST(Times, MeanAndSpreadAreThoseOfTheRuns) {
  TimeStats stats;
  for (const double time : {8.0, 10.0, 12.0}) stats.add(time);
  EXPECT_DOUBLE_EQ(stats.mean_s, 10);
  EXPECT_DOUBLE_EQ(stats.cv(), 2.0 / 10);
}

TEST(Times, RunsOutweighWhatTheOwnerSays) {
  Times times;
  Spec spec = spec_of("u");
  spec.times = {{1, 100}};
  EXPECT_NEAR(seconds(times.estimate(spec, model()), 1), 100, 1e-9);
  for (int i = 0; i < 9; ++i) times.learn({"u", "a", model().name, 1}, 200);
  EXPECT_NEAR(seconds(times.estimate(spec, model()), 1), 190, 1e-9);
}

std::vector<std::string> names_for(const Spec& spec) {
  std::vector<std::string> names;
  for (const int profile : profiles_for(spec, model()))
    names.push_back(model().profiles[static_cast<std::size_t>(profile)].name);
  return names;
}

TEST(Times, OnlyProfilesWithTheMemory) {
  using Names = std::vector<std::string>;
  Spec spec = spec_of("u");
  EXPECT_EQ(names_for(spec), (Names{"1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}));
  spec.memory_gib = 15;
  EXPECT_EQ(names_for(spec), (Names{"1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"}));
  spec.memory_gib = 30;
  EXPECT_EQ(names_for(spec), (Names{"3g.40gb", "4g.40gb", "7g.80gb"}));
  spec.profiles = {"4g.40gb", "7g"};
  EXPECT_EQ(names_for(spec), (Names{"4g.40gb", "7g.80gb"}));
  spec = spec_of("u");
  spec.profiles = {"1g.20gb", "1g.10gb+me"};
  EXPECT_EQ(names_for(spec), (Names{"1g.10gb+me", "1g.20gb"}));
  spec.profiles = {"1g"};  // a size, not what else has it
  EXPECT_EQ(names_for(spec), (Names{"1g.10gb"}));
}

TEST(Times, SeveralGpusAreWholeUnlessSaidOtherwise) {
  using Names = std::vector<std::string>;
  Spec spec = spec_of("u");
  spec.gpus = 2;
  EXPECT_EQ(names_for(spec), (Names{"7g.80gb"}));
  spec.profiles = {"3g"};
  EXPECT_EQ(names_for(spec), (Names{"3g.40gb"}));
  // Its times on several are not those on one.
  Times times;
  times.learn({"u", name_of(spec), model().name, 3}, 10);
  EXPECT_TRUE(times.estimate(spec, model()).measured);
  spec.gpus = 1;
  EXPECT_FALSE(times.estimate(spec, model()).measured);
}

TEST(Shares, HalfIsForgottenInAHalfLife) {
  Shares shares;
  shares.add("a", 100, 0);
  EXPECT_NEAR(shares.add("a", 0, kHalfLife).slice_s, 50, 1e-9);
}

TEST(Shares, WhoHadMoreThanTheirShareWeighsLess) {
  Shares shares({{"a", 3}});
  shares.add("a", 300, 0);
  shares.add("b", 100, 0);
  EXPECT_DOUBLE_EQ(shares.weight("a", 0), 1);  // three quarters of all are due
  EXPECT_DOUBLE_EQ(shares.weight("b", 0), 1);
  shares.add("b", 400, 0);
  EXPECT_LT(shares.weight("b", 0), 1);
  EXPECT_GT(shares.weight("a", 0), 1);
  EXPECT_EQ(Shares().weight("nobody", 0), 1);
}

TEST(TaskForms, WhatIsWrittenIsRead) {
  Spec spec = spec_of("u");
  spec.command = "echo \"x\"\n";
  spec.count = 3;
  spec.after = {{4, Dependency::Kind::not_ok}};
  spec.deadline_s = 7;
  spec.time_limit_s = 8.5;
  spec.memory_gib = 20;
  spec.profiles = {"3g"};
  spec.times = {{0, 3}, {7, 1.5}};
  spec.checkpoint = "save";
  spec.preemptible = spec.held = true;
  const auto read = parse_submission("s", submission_json(spec));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, spec);
  Task task;
  task.id = 9;
  task.array = 7;
  task.index = 2;
  task.spec = spec;
  task.state = State::running;
  task.places = {{{"3g.40gb", 4}, 1, "MIG-1"}};
  task.ending = "cancelled";
  task.pid = 4711;
  const auto line = parse_task("t", task_line(task));
  ASSERT_TRUE(line) << to_string(line.error());
  EXPECT_EQ(*line, task);
  const TasksDocument all{{{task, 1.5, 2.5, "why", Deadline{Promise::likely_missed, 1.25}},
                           {task, {}, {}, "", Deadline{Promise::missed, {}}},
                           {task}}};
  EXPECT_EQ(*parse_tasks("a", tasks_json(all)), all);
  EXPECT_FALSE(parse_submission("s", "{\"command\": \"x\"}"));  // of no kind
}

TEST(TaskForms, ADeadlineIsMetToItsLastMillisecond) {
  Task task;
  task.submitted_ms = 1'000'000;
  EXPECT_EQ(deadline_of(task, 5, 1'000), std::nullopt) << "it has none";
  task.spec.deadline_s = 60;
  const auto seen = [&](State state, long ended_ms) {
    task.state = state;
    task.ended_ms = ended_ms;
    return *deadline_of(task, std::nullopt, 2'000);
  };
  EXPECT_EQ(seen(State::done, 1'060'000), (Deadline{Promise::met, 0}));
  EXPECT_EQ(seen(State::done, 1'060'001).promise, Promise::missed);
  for (const State state : {State::failed, State::cancelled, State::skipped})
    EXPECT_EQ(seen(state, 1'010'000), (Deadline{Promise::missed, {}})) << to_string(state);
  for (const State state : {State::waiting, State::held, State::starting, State::running}) {
    task.state = state;
    EXPECT_EQ(deadline_of(task, std::nullopt, 1'060), Deadline{});
    EXPECT_EQ(deadline_of(task, 10, 1'050), (Deadline{Promise::likely_met, 0}));
    EXPECT_EQ(deadline_of(task, 10.5, 1'050), (Deadline{Promise::likely_missed, 0.5}));
    EXPECT_EQ(deadline_of(task, 10, 1'061), (Deadline{Promise::missed, 11}));
  }
}

}  // namespace
}  // namespace partita::queue
