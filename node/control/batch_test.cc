#include "control/batch.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "control/batch_list.h"
#include "control/memory.h"
#include "control/snapshot.h"

namespace partita::control {
namespace {

BatchTask over_task(const std::string& name, BatchTaskState state) {
  BatchTask task;
  task.batch = 3;
  task.name = name;
  task.state = state;
  return task;
}

TEST(Batch, WhatComesAfterAFailureIsSkippedAndNothingElse) {
  // a -> b -> d, c -> d, named in an order in which d comes first; e stands alone.
  const std::vector<BatchNames> tasks{
      {"d", {"b", "c"}}, {"a", {}}, {"b", {"a"}}, {"c", {}}, {"e", {}}};
  std::vector<BatchTask> over{over_task("a", BatchTaskState::failed)};
  EXPECT_EQ(skip_after_failures(tasks, over, 3, 77), (std::vector<std::string>{"c", "e"}));
  ASSERT_EQ(over.size(), 3U);
  for (std::size_t i = 1; i < over.size(); ++i) {
    EXPECT_EQ(over[i].state, BatchTaskState::skipped);
    EXPECT_EQ(over[i].end_ms, 77);
    EXPECT_EQ(over[i].batch, 3);
  }
  EXPECT_EQ(over[1].reason, "a did not finish");

  std::vector<BatchTask> fine{over_task("a", BatchTaskState::done)};
  EXPECT_EQ(skip_after_failures(tasks, fine, 3, 77),
            (std::vector<std::string>{"d", "b", "c", "e"}));
  EXPECT_EQ(fine.size(), 1U);
}

// Against the definition: skipped is who can reach a failure through `after`.
TEST(Batch, SkippingIsReachability) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + static_cast<int>(rng.below(9));
    std::vector<BatchNames> tasks;
    std::vector<BatchTask> over;
    std::vector<bool> lost;
    for (int t = 0; t < count; ++t) {
      BatchNames& task = tasks.emplace_back();
      task.name = std::to_string(t);
      bool after_loss = false;
      for (int before = 0; before < t; ++before) {
        if (rng.below(4) != 0) continue;
        task.after.push_back(std::to_string(before));
        after_loss = after_loss || lost[static_cast<std::size_t>(before)];
      }
      const bool fails = !after_loss && rng.below(4) == 0;
      if (fails) over.push_back(over_task(task.name, BatchTaskState::failed));
      lost.push_back(fails || after_loss);
    }
    std::vector<std::string> expected;
    for (int t = 0; t < count; ++t)
      if (!lost[static_cast<std::size_t>(t)]) expected.push_back(std::to_string(t));
    EXPECT_EQ(skip_after_failures(tasks, over, 3, 1), expected);
    EXPECT_EQ(over.size() + expected.size(), tasks.size());
  }
}

TEST(Batch, DocumentsAreReadBack) {
  BatchTask done = over_task("x;\"\n", BatchTaskState::done);
  done.gpu_uuid = "GPU-1";
  done.profile = "2g.20gb";
  done.start = 2;
  done.begin_ms = 1'767'571'200'123;
  done.end_ms = 1'767'571'201'456;
  done.attempts = 2;
  BatchTask skipped = over_task("y", BatchTaskState::skipped);
  skipped.reason = "x did not finish";
  BatchRunNow run{.key = "3-1-ab", .over = true};
  run.error = "why";
  run.tasks = {done, skipped};
  run.left = {"1g.10gb@0 on GPU 1: held"};
  const auto again = parse_batch_run("r.json", batch_run_json(run));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, run);

  AgentMemory memory;
  memory.batches = 3;
  memory.tasks_done = 7;
  memory.tasks_failed = 1;
  BatchKept kept{.number = 3, .user = "root", .text = "task,time_s_1g,command\na,1,true\n"};
  kept.received_ms = 5;
  kept.run = 2;
  kept.gpus = {"GPU-0", "GPU-1"};
  kept.over = {skipped};
  kept.barren = 1;
  kept.not_before_ms = 9;
  kept.cancelled_by = "token \"ops\"";
  kept.cancelled_ms = 8;
  memory.batch = {kept};
  memory.past_tasks = {done, over_task("z", BatchTaskState::cancelled)};
  memory.tasks_cancelled = 5;
  memory.past_batches = {{.number = 2, .user = "root", .received_ms = 1, .ended_ms = 2, .done = 1}};
  memory.past_batches.push_back(memory.past_batches[0]);
  memory.past_batches[1].cancelled = 4;
  memory.past_batches[1].cancelled_by = "root";
  const auto remembered = parse_memory("m.json", memory_json(memory));
  ASSERT_TRUE(remembered) << to_string(remembered.error());
  EXPECT_EQ(*remembered, memory);

  Snapshot snapshot;
  snapshot.batch = {.waiting = 1, .running = 2, .done = 3, .failed = 4, .ends_ms = 99};
  snapshot.batch.gpus = {"GPU-1"};
  snapshot.batch.tasks = {done, skipped};
  const auto shown = parse_snapshot("s.json", snapshot_json(snapshot));
  ASSERT_TRUE(shown) << to_string(shown.error());
  EXPECT_EQ(shown->batch, snapshot.batch);
}

TEST(Batch, AListHasFewTasksAndOneBatchAllOfThem) {
  std::vector<BatchInfo> all(3);
  for (int b = 0; b < 3; ++b) {
    BatchInfo& one = all[static_cast<std::size_t>(b)];
    one.number = 9 - b;
    one.state = b == 0 ? BatchState::cancelling : BatchState::cancelled;
    one.user = "a;\"\n";
    one.received_ms = 17;
    if (b == 0) one.ends_ms = 99;
    if (b > 0) one.ended_ms = 98;
    one.cancelled_by = "ops";
    one.cancelled = 300;
    one.gpus = {"GPU-1"};
    for (int t = 0; t < one.cancelled; ++t)
      one.tasks.push_back(over_task(std::to_string(t), BatchTaskState::cancelled));
  }
  const auto list = parse_batches("l.json", batches_json(all));
  ASSERT_TRUE(list) << to_string(list.error());
  ASSERT_EQ(list->size(), 3U);
  EXPECT_EQ((*list)[0], all[0]);
  EXPECT_EQ((*list)[1].tasks.size(), kMostShownTasks - 300);
  EXPECT_EQ((*list)[2].tasks.size(), 0U);
  EXPECT_EQ((*list)[2].cancelled, 300);
  for (const BatchInfo& one : all) {
    const auto again = parse_batch("b.json", batch_json(one));
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(*again, one);
  }
}

}  // namespace
}  // namespace partita::control
