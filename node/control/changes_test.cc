#include "control/changes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

// A plan of one service for a node of two GPUs is in force.
struct ChangesTest : testing::Test {
  World world = small_world(automatic());
  ChangesKept kept;
  Report report;
  Changes changes{world, kept, report};
  NodeView node = empty_node(world, 2);
  std::optional<Target> target;
  std::optional<plan::Judged<plan::ServingPlan>> judged;
  std::int64_t now = kMonday;
  long numbers = 1;

  ChangesTest() {
    PlanMemo memo;
    const std::vector<plan::Service> services = {wanted_service("a", 150)};
    target = plan_target(world, node.use, {{services, 0, {}}, current_plan(node.use, {}, {})}, memo)
                 ->target;
    target->change = 1;
    judged = *judge_target(world, node.use, {services, *target}, memo);
  }
  ChangeGround ground(Mode mode = Mode::automatic) {
    report.begin(now, now + 10'000);
    return {now, mode, node, target, &*judged, {}, numbers};
  }
  // What apply would have made.
  void make(const ApplyDeed& deed) {
    int next = 0;
    for (const actuate::WantedGpu& gpu : deed.wanted.gpus) {
      device::GpuState& there = node.state.gpus[static_cast<std::size_t>(gpu.index)];
      const hw::GpuModel& model = *world.catalogue.find(gpu.model);
      there.instances.clear();
      for (const actuate::WantedInstance& one : gpu.instances) {
        const auto& shape =
            model.profiles[static_cast<std::size_t>(model.profile_index(one.profile))];
        const std::string uuid = fmt::format("MIG-{}-{}", gpu.index, ++next);
        there.instances.push_back(
            {one, shape.profile_id, shape.gpcs, shape.size, next, {{0, shape.gpcs, uuid}}, {}});
        node.journal.owned.push_back(uuid);
        node.assignment.segments.push_back({one, one.segment, uuid, gpu.uuid});
      }
    }
    node.assignment.services = deed.wanted.services;
  }
  Progress end(Result<void> outcome) {
    return changes.hear({{changes.under()->number, std::move(outcome), 1}}, ground());
  }
};

TEST_F(ChangesTest, MakesThePlanAndReadsItBack) {
  const Progress begun = changes.bring_about(ground());
  ASSERT_TRUE(begun.busy && begun.apply);
  EXPECT_EQ(begun.apply->change, 1);
  EXPECT_FALSE(begun.apply->repair);
  make(*begun.apply);
  end({});
  EXPECT_FALSE(changes.under());
  const Progress there = changes.bring_about(ground());
  EXPECT_TRUE(there.is_there && !there.busy && !there.by_repair);
  EXPECT_EQ(changes.made(), 1);
  EXPECT_EQ(changes.last()->state, ChangeState::succeeded);
}

// What serves is as planned: of other terms nothing is to be made, and they are to be written down.
TEST_F(ChangesTest, TermsThatChangeWhileItIsMadeAreWrittenNext) {
  const Progress begun = changes.bring_about(ground());
  make(*begun.apply);
  plan::Service other = wanted_service("a", 150);
  other.cache = plan::CacheTerms{.memory = Mib{64}};
  target->plan.services[0].cache = other.cache;
  PlanMemo memo;
  judged = *judge_target(world, node.use, {{other}, *target}, memo);
  end({});
  const Progress next = changes.bring_about(ground());
  ASSERT_TRUE(next.busy && next.apply);
  EXPECT_EQ(next.apply->wanted.services.at(0).cache, other.cache);
  node.assignment.services = next.apply->wanted.services;
  end({});
  EXPECT_TRUE(changes.bring_about(ground()).is_there);
  target->done = true;
  EXPECT_TRUE(changes.bring_about(ground()).is_there) << "and that is all";
}

TEST_F(ChangesTest, WhatIsNotThereAfterItWasMadeFailed) {
  changes.bring_about(ground());
  end({});
  const Progress progress = changes.bring_about(ground());
  EXPECT_TRUE(progress.busy && !progress.apply);
  EXPECT_EQ(kept.failed_changes, 1);
}

TEST_F(ChangesTest, PausesLongerAfterEachFailureAndThenWantsAnotherPlan) {
  double pause_s = world.settings.first_pause_s;
  for (int attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_TRUE(changes.bring_about(ground()).apply) << attempt;
    const Progress progress = end(failed({ErrorCode::timeout, "in vain", ""}));
    EXPECT_EQ(!progress.cannot_be.empty(), attempt == 3);
    now += static_cast<std::int64_t>(pause_s * 1000) - 1;
    EXPECT_FALSE(changes.bring_about(ground()).apply);
    EXPECT_EQ(report.next_ms(), now + 1);
    now += 1;
    pause_s *= 2;
  }
  // Another target begins with no pause.
  ASSERT_TRUE(changes.bring_about(ground()).apply);
  end(failed({ErrorCode::timeout, "in vain", ""}));
  ASSERT_FALSE(changes.bring_about(ground()).apply);
  target->change = 2;
  EXPECT_TRUE(changes.bring_about(ground()).apply);
}

TEST_F(ChangesTest, DriftIsCountedOnceAndRepairedUnderANumberOfItsOwn) {
  make(*changes.bring_about(ground()).apply);
  end({});
  changes.bring_about(ground());
  target->done = true;
  for (device::GpuState& gpu : node.state.gpus) gpu.instances.clear();
  const Progress seen = changes.bring_about(ground(Mode::observe));
  EXPECT_TRUE(seen.busy && !seen.apply);
  const Progress repair = changes.bring_about(ground());
  ASSERT_TRUE(repair.apply && repair.is_not_there);
  EXPECT_EQ(kept.drifts, 1);
  EXPECT_EQ(repair.changes, 2);
  EXPECT_EQ(repair.apply->change, 2);
  EXPECT_TRUE(repair.apply->repair);
  target->done = false;
  node.assignment.segments.clear();
  make(*repair.apply);
  end({});
  EXPECT_TRUE(changes.bring_about(ground()).by_repair);
}

TEST_F(ChangesTest, WaitsForABatchAndLeavesGpusThatAreLent) {
  const std::string used = target->uses("GPU-0") ? "GPU-0" : "GPU-1";
  const std::string idle = used == "GPU-0" ? "GPU-1" : "GPU-0";
  node.lent = {used};
  EXPECT_FALSE(changes.bring_about(ground()).apply);
  EXPECT_NE(report.doing.find("a batch has left"), std::string::npos);
  node.lent = {idle};
  const Progress begun = changes.bring_about(ground());
  ASSERT_TRUE(begun.apply);
  EXPECT_EQ(std::ranges::count(begun.apply->wanted.gpus, idle, &actuate::WantedGpu::uuid), 0);
}

TEST_F(ChangesTest, EmptiesAGpuThatIsOut) {
  make(*changes.bring_about(ground()).apply);
  end({});
  changes.bring_about(ground());
  const std::string used = target->uses("GPU-0") ? "GPU-0" : "GPU-1";
  target.reset();
  judged.reset();
  ChangeGround bare{now, Mode::automatic, node, target, nullptr, {}, 1};
  const Progress progress = changes.empty({{.uuid = used, .why = "fan"}}, bare);
  ASSERT_TRUE(progress.apply);
  EXPECT_TRUE(progress.apply->wanted.gpus.at(0).instances.empty());
  EXPECT_TRUE(changes.under()->emptying);
}

// A process that nobody ends may hold the GPU for days.
TEST_F(ChangesTest, TriesSeldomToEmptyAGpuThatDoesNotBecomeEmpty) {
  world.settings.first_pause_s = 1;
  make(*changes.bring_about(ground()).apply);
  end({});
  changes.bring_about(ground());
  const std::string used = target->uses("GPU-0") ? "GPU-0" : "GPU-1";
  target.reset();
  judged.reset();
  std::vector<std::int64_t> tried;
  for (const std::int64_t begun = now; now < begun + 3'600'000; now += 1000) {
    const ChangeGround bare{now, Mode::automatic, node, target, nullptr, {}, ++numbers};
    if (!changes.empty({{.uuid = used, .why = "fan"}}, bare).apply) continue;
    tried.push_back(now);
    changes.hear({{changes.under()->number, {}, 1}}, bare);  // nothing came of it
  }
  ASSERT_GE(tried.size(), 4u);
  const auto longest = static_cast<std::int64_t>(world.settings.longest_pause_s * 1000);
  EXPECT_EQ(tried[3] - tried[2], longest);
  for (std::size_t at = 4; at < tried.size(); ++at)
    EXPECT_GE(tried[at] - tried[at - 1], 2 * longest);
}

}  // namespace
}  // namespace partita::control
