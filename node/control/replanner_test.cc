#include "control/replanner.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

struct ReplannerTest : testing::Test {
  World world = small_world(automatic());
  DampingKept damping_kept;
  Damping damping{world.settings.damping, damping_kept};
  PlanMemo memo;
  Report report;
  Replanner replanner{world, damping, memo, report};
  NodeView node = empty_node(world, 3);
  DesiredNow desired{{wanted_service("a", 150), wanted_service("b", 300)}, 0, "key", "ops"};
  PlansKept plans;
  std::vector<ServiceNeed> needs{{{}, 150, 150}, {{}, 300, 300}};
  std::int64_t now = kMonday;

  PlanGround ground() const { return {now, Mode::automatic, desired, node, plans, needs}; }
  // What is decided is in force, and there.
  void follow(const Decision& decision) {
    plans.target = decision.planned.target;
    plans.target->planned_ms = now;
    plans.target->done = true;
  }
  double planned(const Decision& decision, const std::string& service) const {
    const PlannedFor* rate = decision.planned.target.rate_of(service);
    return rate == nullptr ? 0 : rate->rate_rps;
  }
};

TEST_F(ReplannerTest, PlansWhatMustBeForWhatIsNeeded) {
  const auto made = replanner.must(ground(), "no plan is in force", false);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->why, Why::must);
  EXPECT_GE(planned(*made, "a"), 150);
  EXPECT_GE(planned(*made, "b"), 300);
}

device::Instance lent(const std::string& profile, int start) {
  device::Instance one;
  one.profile = profile, one.start = start;
  one.holders = {{.pid = 0, .name = "lease me"}};
  return one;
}

TEST_F(ReplannerTest, WhatCannotBePlannedIsSaidUntilItNeedNotBe) {
  node = empty_node(world, 1);
  node.state.gpus[0].instances = {lent("7g.80gb", 0)};
  for (const char* key : {"first", "second"}) {
    desired.key = key;
    for (int again = 0; again < 2; ++again) {
      EXPECT_FALSE(replanner.must(ground(), "no plan is in force", false));
      now += kMinuteMs * 10;
    }
    EXPECT_EQ(report.take_news().size(), 1u);
    ASSERT_EQ(report.notices().size(), 1u);
    EXPECT_TRUE(report.notices()[0].starts_with("these services cannot be planned: "));
  }
  replanner.need_not();
  EXPECT_TRUE(report.notices().empty());
}

// Whole GPUs, and one slice where the plan would have something: the others take it.
TEST_F(ReplannerTest, PlansBesideWhatIsLent) {
  const auto before = replanner.must(ground(), "", false);
  ASSERT_TRUE(before);
  std::string used;
  for (const GpuUse::Gpu& gpu : node.use.usable)
    if (before->planned.target.uses(gpu.uuid)) used = gpu.uuid;
  for (device::GpuState& gpu : node.state.gpus)
    if (gpu.uuid == used) gpu.instances = {lent("7g.80gb", 0)};
  EXPECT_FALSE(lent_in_the_way(world, node, before->planned.target).empty());
  const auto made = replanner.must(ground(), "", false);
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->planned.target.uses(used));
  EXPECT_TRUE(made->planned.target.reduced.empty());
  EXPECT_GE(planned(*made, "a"), 150);
  EXPECT_GE(planned(*made, "b"), 300);
}

// One GPU, a slice of it lent where the planner begins: all is served beside it.
TEST_F(ReplannerTest, ALentSliceStaysAndTheRestOfItsGpuServes) {
  node = empty_node(world, 1);
  const auto before = replanner.must(ground(), "", false);
  ASSERT_TRUE(before);
  ASSERT_TRUE(before->planned.target.reduced.empty());
  node.state.gpus[0].instances = {
      lent("1g.10gb", before->planned.target.plan.gpus[0].instances[0].start)};
  ASSERT_FALSE(lent_in_the_way(world, node, before->planned.target).empty());
  const auto made = replanner.must(ground(), "", false);
  ASSERT_TRUE(made) << report.doing;
  EXPECT_TRUE(lent_in_the_way(world, node, made->planned.target).empty());
  EXPECT_TRUE(made->planned.target.reduced.empty()) << made->planned.target.reduced;
}

TEST_F(ReplannerTest, WhateverIsLentPlansAreBesideItAndJudged) {
  Rng rng(7);
  int made_some = 0;
  for (int round = 0; round < 40; ++round) {
    const int gpus = 1 + static_cast<int>(rng.below(3));
    node = empty_node(world, gpus);
    for (device::GpuState& gpu : node.state.gpus)
      for (const auto& [profile, start] :
           std::vector<std::pair<std::string, int>>{{"1g.10gb", 0}, {"2g.20gb", 2}, {"3g.40gb", 4}})
        if (rng.below(3) == 0) gpu.instances.push_back(lent(profile, start));
    for (ServiceNeed& need : needs) need.soon_rps = 50.0 + static_cast<double>(rng.below(900));
    report.doing.clear();
    replanner.forget_tries();
    const auto made = replanner.must(ground(), std::to_string(round), false);
    if (!made) continue;
    ++made_some;
    EXPECT_TRUE(lent_in_the_way(world, node, made->planned.target).empty()) << round;
    EXPECT_TRUE(judge_target(world, node.use, {desired.services, made->planned.target}, memo))
        << round;
  }
  EXPECT_GE(made_some, 20);
}

TEST_F(ReplannerTest, WhereAllIsLentThereIsNoPlanUntilItIsGivenBack) {
  for (device::GpuState& gpu : node.state.gpus) gpu.instances = {lent("7g.80gb", 0)};
  EXPECT_FALSE(replanner.must(ground(), "", false));
  EXPECT_NE(report.doing.find("is held by lease me"), std::string::npos) << report.doing;
  node.state.gpus[1].instances.clear();  // at once, without the pause between tries
  const auto made = replanner.must(ground(), "", false);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->planned.target.uses(node.state.gpus[1].uuid));
}

// With less than is wanted, what is given back is noticed.
TEST_F(ReplannerTest, APartRemembersBesideWhatItWasMade) {
  for (device::GpuState& gpu : node.state.gpus) gpu.instances = {lent("3g.40gb", 4)};
  needs[0].soon_rps = needs[1].soon_rps = 3000;
  const auto made = replanner.must(ground(), "", false);
  ASSERT_TRUE(made) << report.doing;
  EXPECT_FALSE(made->planned.target.reduced.empty());
  EXPECT_EQ(made->planned.target.beside, node.what_is_lent());
  EXPECT_EQ(made->planned.target.beside.size(), 3u);
}

TEST_F(ReplannerTest, WhatHasNoPlanIsNotTriedAgainBeforeAPause) {
  node.use.usable.clear();
  EXPECT_FALSE(replanner.must(ground(), "no plan is in force", false));
  EXPECT_EQ(report.take_news().size(), 1u);
  report.doing.clear();
  now += 59'000;
  EXPECT_FALSE(replanner.must(ground(), "no plan is in force", false));
  EXPECT_TRUE(report.doing.empty());
  now += 1'000;
  EXPECT_FALSE(replanner.must(ground(), "no plan is in force", false));
  EXPECT_FALSE(report.doing.empty());
}

TEST_F(ReplannerTest, RelievesAServiceThatIsMeasuredToBeShortAtOnce) {
  follow(*replanner.must(ground(), "", false));
  EXPECT_FALSE(replanner.consider(ground()));
  needs[1] = {{}, 500, 500};  // forecast only: not right after another plan
  EXPECT_FALSE(replanner.consider(ground()));
  needs[1].now_rps = 480;
  const auto made = replanner.consider(ground());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->why, Why::shortage);
  EXPECT_GE(planned(*made, "b"), 500);
  EXPECT_GE(planned(*made, "a"), 150);
}

TEST_F(ReplannerTest, NothingIsConsideredInAFreeze) {
  follow(*replanner.must(ground(), "", false));
  needs[1] = {480, 500, 500};
  world.settings.freezes = {{{}, 0, 24 * 60 - 1}};
  EXPECT_FALSE(replanner.consider(ground()));
}

TEST_F(ReplannerTest, TakesFewerGpusOnlyWhereThatPaysAndNothingCools) {
  needs = {{{}, 900, 900}, {{}, 900, 900}};
  follow(*replanner.must(ground(), "", false));
  ASSERT_GE(gpus_in_use(plans.target->plan), 2);
  needs = {{{}, 100, 100}, {{}, 100, 100}};
  EXPECT_FALSE(replanner.consider(ground()));  // too soon
  now += 20 * kMinuteMs;
  damping.adopt(difference({}, *plans.target), true, now);
  EXPECT_FALSE(replanner.consider(ground()));
  now += 60 * kMinuteMs;
  const auto made = replanner.consider(ground());
  ASSERT_TRUE(made);
  EXPECT_EQ(made->why, Why::gain);
  EXPECT_LT(gpus_in_use(made->planned.target.plan), gpus_in_use(plans.target->plan));
}

}  // namespace
}  // namespace partita::control
