#include "control/batches.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

constexpr const char* kTwoTasks =
    "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after\n"
    "one,90,80,70,60,50,true,\n"
    "two,90,80,70,60,50,true,one\n";

// GPU 1 of two is for batches.
struct BatchesTest : testing::Test {
  World world = [] {
    Settings settings = automatic();
    settings.batch.gpus = {1};
    return small_world(settings);
  }();
  BatchesKept kept;
  Report report;
  Batches batches{world, kept, report};
  NodeView node = empty_node(world, 2);
  std::vector<OutGpu> out;
  PlansKept plans;
  std::int64_t now = kMonday;

  Batches::Ground ground(bool idles = false) {
    report.begin(now, now + 10'000);
    return {now, Mode::automatic, node, out, plans, idles, true};
  }
  void hear(const BatchRunNow& run) {
    batches.hear(ground(), std::vector<BatchRunNow>{run});
    node.lent = batches.lent();
  }
  void begin() {
    batches.hear(ground(), std::vector<BatchRunNow>{});
    const Reply reply = batches.submit(ground(), {kTwoTasks}, "ops");
    ASSERT_TRUE(reply.has_value()) << to_string(reply.error());
  }
  static BatchTask over(const std::string& name, BatchTaskState state) {
    return {{}, 1, name, state, "GPU-1"};
  }
};

TEST_F(BatchesTest, NobodyCarriesThemOutUnlessSomebodySaysSo) {
  EXPECT_FALSE(batches.submit(ground(), {kTwoTasks}, "ops").has_value());
  begin();
  EXPECT_EQ(kept.batch.size(), 1u);
  EXPECT_EQ(batches.submit(ground(), {"task,time_s_7g,command\nx,5,\n"}, "ops").error().code,
            ErrorCode::bad_input);
}

TEST_F(BatchesTest, HaveTheirGpusUntilAllTasksAreOver) {
  begin();
  const auto runs = batches.lend(ground());
  ASSERT_EQ(runs.size(), 1u);
  ASSERT_EQ(runs[0].gpus.size(), 1u);
  EXPECT_EQ(runs[0].gpus[0].uuid, "GPU-1");
  EXPECT_FALSE(runs[0].gpus[0].leave);
  EXPECT_EQ(batches.lent(), (std::set<std::string>{"GPU-1"}));
  EXPECT_EQ(batches.list(node, now).at(0).state, BatchState::running);
  hear({.key = runs[0].key,
        .over = true,
        .tasks = {over("one", BatchTaskState::done), over("two", BatchTaskState::done)}});
  EXPECT_TRUE(batches.lent().empty());
  EXPECT_TRUE(kept.batch.empty());
  EXPECT_EQ(kept.tasks_done, 2);
  EXPECT_EQ(batches.list(node, now).at(0).state, BatchState::done);
}

TEST_F(BatchesTest, WhatFailsOnAWellGpuEndsWhatComesAfterIt) {
  begin();
  const auto runs = batches.lend(ground());
  hear({.key = runs.at(0).key, .over = true, .tasks = {over("one", BatchTaskState::failed)}});
  EXPECT_TRUE(kept.batch.empty());
  EXPECT_EQ(kept.tasks_failed, 2);  // one is skipped
}

TEST_F(BatchesTest, WhatFailsOnAGpuThatBrokeIsTriedAgain) {
  begin();
  const auto runs = batches.lend(ground());
  out.push_back({.uuid = "GPU-1", .why = "XID"});
  hear({.key = runs.at(0).key, .over = true, .tasks = {over("one", BatchTaskState::failed)}});
  EXPECT_EQ(kept.batch.size(), 1u);
  EXPECT_EQ(kept.batch[0].barren, 1);
}

TEST_F(BatchesTest, AGpuThatServicesWantIsGivenBackAfterAWhile) {
  world.settings.batch.gpus.clear();
  world.settings.batch.idle = true;
  node.use = gpus_for_services(world, node.state, {});
  begin();
  EXPECT_TRUE(batches.lend(ground(false)).empty());  // services may need more
  ASSERT_EQ(batches.lend(ground(true)).size(), 1u);
  node.lent = batches.lent();
  plans.target.emplace();
  plans.target->gpus = {{0, "GPU-0"}, {1, "GPU-1"}};
  plans.target->plan.gpus = {{0, "A100-80GB", {plan::PlannedInstance{}}}};
  BatchGpu gpu = batches.lend(ground()).at(0).gpus.at(0);
  EXPECT_TRUE(gpu.leave && !gpu.stop);
  now += static_cast<std::int64_t>(world.settings.batch.give_back_s * 1000) - 1;
  gpu = batches.lend(ground()).at(0).gpus.at(0);
  EXPECT_FALSE(gpu.stop);
  EXPECT_EQ(report.next_ms(), now + 1);
  now += 1;
  EXPECT_TRUE(batches.lend(ground()).at(0).gpus.at(0).stop);
}

TEST_F(BatchesTest, ACancelledBatchLeavesItsGpuAndIsOverThen) {
  begin();
  const auto runs = batches.lend(ground());
  EXPECT_EQ(batches.cancel(ground(), {9, ""}, "ops").error().code, ErrorCode::not_found);
  EXPECT_TRUE(batches.cancel(ground(), {1, "wrong"}, "ops").has_value());
  EXPECT_TRUE(batches.lend(ground()).at(0).gpus.at(0).stop);
  hear({.key = runs.at(0).key, .over = true});
  EXPECT_TRUE(kept.batch.empty());
  EXPECT_EQ(kept.tasks_cancelled, 2);
}

}  // namespace
}  // namespace partita::control
