#include "control/plans.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

// Plans that the planner made are handed in as values.
struct PlansTest : testing::Test {
  World world = small_world(automatic());
  PlansKept kept;
  DampingKept damping_kept;
  Damping damping{world.settings.damping, damping_kept};
  PlanMemo memo;
  Report report;
  Plans plans{world, {kept, damping}, memo, report};
  NodeView node = empty_node(world, 2);
  DesiredNow desired{{wanted_service("a", 150)}, 0, "key", "ops"};
  std::vector<ServiceNeed> needs;
  std::int64_t now = kMonday;

  PlanGround ground(Mode mode) const { return {now, mode, desired, node, kept, needs}; }
  Decision decision(double rate, Why why = Why::must) {
    const Want want{{wanted_service("a", rate)}, 0, {}};
    const auto planned =
        plan_target(world, node.use, {want, current_plan(node.use, kept.target, {})}, memo);
    EXPECT_TRUE(planned.has_value());
    return {*planned, "because", why};
  }
};

TEST_F(PlansTest, AreInForceAtOnceOrWaitForAPerson) {
  EXPECT_EQ(plans.must_replan(ground(Mode::approve)), "no plan is in force");
  EXPECT_FALSE(plans.settle_on(decision(150), ground(Mode::approve)));
  ASSERT_TRUE(kept.proposal);
  EXPECT_FALSE(kept.target);
  EXPECT_EQ(plans.must_replan(ground(Mode::approve)), "");
  EXPECT_FALSE(plans.proposed()->change.steps.empty());
  EXPECT_EQ(plans.approve({2, ""}, "ops", ground(Mode::approve)).error().code,
            ErrorCode::not_found);
  EXPECT_EQ(plans.approve({1, ""}, "ops", ground(Mode::observe)).error().code,
            ErrorCode::infeasible);
  EXPECT_TRUE(plans.approve({1, ""}, "ops", ground(Mode::approve)).has_value());
  EXPECT_EQ(kept.target->change, 1);
  EXPECT_FALSE(kept.proposal);
  EXPECT_TRUE(damping.cools("a", now));
  EXPECT_NE(plans.judged(ground(Mode::approve)), nullptr);
}

TEST_F(PlansTest, ANoKeepsQuietForACooldown) {
  plans.settle_on(decision(150), ground(Mode::approve));
  EXPECT_TRUE(plans.reject({1, "no"}, "ops", ground(Mode::approve)).has_value());
  EXPECT_FALSE(kept.proposal);
  EXPECT_TRUE(plans.is_quiet(now));
  EXPECT_FALSE(
      plans.is_quiet(now + static_cast<std::int64_t>(world.settings.damping.cooldown_s * 1000)));
}

TEST_F(PlansTest, OtherRatesOnTheSameInstancesAreNoChange) {
  EXPECT_TRUE(plans.settle_on(decision(150), ground(Mode::automatic)));
  plans.is_there(false, now);
  Decision again = decision(150, Why::shortage);
  again.planned.target.rates.at(0).rate_rps = 151;
  EXPECT_TRUE(plans.settle_on(again, ground(Mode::automatic)));
  EXPECT_EQ(kept.changes, 1);
  EXPECT_TRUE(plans.is_rerated());
  EXPECT_EQ(kept.target->rates.at(0).rate_rps, 151);
}

TEST_F(PlansTest, WhatIsLentBehindItsBackIsPlannedAgain) {
  plans.settle_on(decision(150), ground(Mode::automatic));
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "");
  const std::string used = kept.target->named(kept.target->plan.gpus.at(0).index)->uuid;
  for (device::GpuState& gpu : node.state.gpus) {
    if (gpu.uuid != used) continue;
    device::Instance& one = gpu.instances.emplace_back();
    one.profile = "7g.80gb";
    one.holders = {{.pid = 0, .name = "lease me"}};
  }
  EXPECT_NE(plans.must_replan(ground(Mode::automatic)).find("lease me"), std::string::npos);
}

TEST_F(PlansTest, APartIsPlannedAgainWhenSomethingIsGivenBack) {
  Decision part = decision(150);
  part.planned.target.reduced = "not enough GPUs";
  device::Instance& one = node.state.gpus[1].instances.emplace_back();
  one.profile = "1g.10gb", one.start = 6;
  one.holders = {{.pid = 0, .name = "lease me"}};
  part.planned.target.beside = node.what_is_lent();
  plans.settle_on(part, ground(Mode::automatic));
  AgentMemory memory;  // an agent that starts again knows it, too
  memory.target = kept.target;
  EXPECT_EQ(parse_memory("memory", memory_json(memory))->target->beside, node.what_is_lent());
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "");
  node.state.gpus[1].instances.clear();
  EXPECT_NE(plans.must_replan(ground(Mode::automatic)).find("is not lent any more"),
            std::string::npos);
}

TEST_F(PlansTest, WhatCannotBeOrDoesNotFitIsReplaced) {
  plans.settle_on(decision(150), ground(Mode::automatic));
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "");
  plans.cannot_be("it failed");
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "it failed");
  plans.settle_on(decision(150), ground(Mode::automatic));
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "");
  desired.key = "other";
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "the services were changed by ops");
  desired.key = "key";
  node.use.usable.clear();
  EXPECT_EQ(plans.must_replan(ground(Mode::automatic)), "gpu 0 is not there any more");
}

TEST_F(PlansTest, ARollbackIsAChangeOfItsOwn) {
  EXPECT_FALSE(plans.roll_back("ops", ground(Mode::automatic)).has_value());
  plans.settle_on(decision(150), ground(Mode::automatic));
  const Target first = *kept.target;
  plans.settle_on(decision(900), ground(Mode::automatic));
  const Reply reply = plans.roll_back("ops", ground(Mode::automatic));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->change, 3);
  EXPECT_EQ(kept.target->plan, first.plan);
  EXPECT_FALSE(kept.target->done);
}

}  // namespace
}  // namespace partita::control
