// Batches called back in simulated days, with an agent that is killed at any call: nothing of them
// begins afterwards, what runs is stopped, their GPUs are empty, and others are not touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

struct CancelKilled {};

constexpr std::int64_t kCancelHourNs = 3'600'000'000'000;

// Batch 1 has hours of work, batch 2 little.
constexpr const char* kLongTasks =
    "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after\n"
    "a,9000,9000,9000,9000,9000,work,\n"
    "b,9000,9000,9000,9000,9000,work,\n"
    "c,600,600,600,600,600,work,\n"
    "d,9000,9000,9000,9000,9000,work,a\n";
constexpr const char* kShortTasks =
    "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command\n"
    "x,900,900,900,900,900,work\n";

WeeksOptions cancel_day(std::uint64_t seed) {
  WeeksOptions options =
      weeks_of_tests("day", 3, 1, seed,
                     "services:\n  - {name: day, model: resnet50, rate_rps: 600, slo_ms: 138}\n");
  options.tasks_text = kLongTasks;
  options.tasks_days = 1;
  options.world.settings.batch.gpus = {2};
  return options;
}

// Batch 1 at one o'clock, batch 2 behind it, batch 1 is cancelled half an hour after that: asked
// again until it was answered, as somebody does whose agent was killed.
class CancelDay {
 public:
  CancelDay(std::uint64_t seed, double chance) : rng_(Rng(seed).split(9)), chance_(chance) {
    auto begun = SimWeeks::begin(cancel_day(seed));
    CHECK(begun.has_value());
    weeks_ = *std::move(begun);
    weeks_->add_doors = [this](AgentDoors& doors) {
      doors.inquiries = [this] { return ask(); };
      doors.publish = [this](const Loop& loop) { list_ = loop.batches(); };
    };
    weeks_->node().at_call = [this] {
      if (chance_ > 0 && rng_.uniform() < chance_) throw CancelKilled{};
    };
  }

  void play() {
    for (bool on = true; on;) {
      try {
        on = weeks_->step();
      } catch (const CancelKilled&) {
        ++kills;
        weeks_->drop_agent();
      }
      if (cancelled && !begun_before) begun_before = weeks_->batches().begun();
    }
    weeks_->node().at_call = {};
  }
  const BatchInfo& batch(long number) const {
    const auto found = std::ranges::find(*list_, number, &BatchInfo::number);
    CHECK(found != list_->end());
    return *found;
  }
  SimWeeks& weeks() { return *weeks_; }

  int kills = 0, answers = 0;
  bool cancelled = false;
  std::optional<std::map<std::string, int>> begun_before;

 private:
  std::vector<Inquiry> ask() {
    std::vector<Inquiry> all;
    const auto now = weeks_->node().now_ns();
    if (!second_ && now > kCancelHourNs * 5 / 4)
      all.push_back({{SubmitTasks{kShortTasks}, "other"},
                     [this](const Reply& reply) { second_ = reply.has_value(); }});
    if (answers < 2 && now > kCancelHourNs * 3 / 2)  // twice: once more is once
      all.push_back({{CancelBatch{1, "wrong data"}, "ops"}, [this](const Reply& reply) {
                       EXPECT_TRUE(reply) << to_string(reply.error());
                       cancelled = true;
                       ++answers;
                     }});
    return all;
  }
  Rng rng_;
  double chance_;
  bool second_ = false;
  std::unique_ptr<SimWeeks> weeks_;
  std::shared_ptr<const std::vector<BatchInfo>> list_;
};

TEST(SimCancel, NothingOfItBeginsOrGoesOnThoughTheAgentIsKilled) {
  int kills = 0;
  const auto seeds = static_cast<std::uint64_t>(std::max(2, test_rounds(8)));  // the first: no kill
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    CancelDay day(seed, seed == 1 ? 0 : 1.0 / 120);
    day.play();
    kills += day.kills;
    ASSERT_TRUE(day.cancelled);
    const auto& begun = day.weeks().batches().begun();
    const auto& ended = day.weeks().batches().ended();
    // What was begun before was begun by then, what was stopped never came to its end by itself.
    for (const char* task : {"1/a", "1/b", "1/c", "1/d"}) {
      const auto now = begun.find(task);
      const auto then = day.begun_before->find(task);
      EXPECT_EQ(now == begun.end() ? 0 : now->second,
                then == day.begun_before->end() ? 0 : then->second)
          << task;
    }
    EXPECT_EQ(ended.count("1/a") + ended.count("1/b") + ended.count("1/d"), 0U);
    EXPECT_EQ(ended.count("2/x"), 1U) << "the batch behind it did not get the GPU";
    const BatchInfo& one = day.batch(1);
    EXPECT_EQ(one.state, BatchState::cancelled);
    EXPECT_EQ(one.cancelled_by, "ops");
    EXPECT_EQ(one.done, static_cast<int>(ended.count("1/c")));
    EXPECT_EQ(one.done + one.cancelled, 4);
    for (const BatchTask& task : one.tasks)
      EXPECT_EQ(task.state, task.name == "c" && one.done == 1 ? BatchTaskState::done
                                                              : BatchTaskState::cancelled)
          << task.name;
    EXPECT_EQ(day.batch(2).state, BatchState::done);
    EXPECT_TRUE(day.weeks().snapshot()->batch.gpus.empty());
    EXPECT_TRUE(day.weeks().snapshot()->state.gpus[2].instances.empty());
    EXPECT_EQ(day.weeks().snapshot()->batch.cancelled, one.cancelled);
  }
  EXPECT_GT(kills, 0);
}

// Where it stood when it was stopped is still told: the page draws it.
TEST(SimCancel, WhatWasStoppedKeepsItsPlaceAndTimes) {
  CancelDay day(1, 0);
  day.play();
  int stopped = 0;
  for (const BatchTask& task : day.batch(1).tasks) {
    if (task.state != BatchTaskState::cancelled || task.gpu_uuid.empty()) continue;
    ++stopped;
    EXPECT_FALSE(task.profile.empty()) << task.name;
    EXPECT_GT(task.begin_ms, 0) << task.name;
    EXPECT_GE(task.end_ms, task.begin_ms) << task.name;
    EXPECT_LT(task.end_ms - task.begin_ms, 9000 * 1000) << task.name;
    EXPECT_NE(task.reason.find("ops cancelled"), std::string::npos) << task.reason;
  }
  EXPECT_GE(stopped, 1);
}

}  // namespace
}  // namespace partita::control
