// Plans of many services by the pooled rule, each planned by itself and then levelled: judged, near
// the bound, and small services beside them.
#include <gtest/gtest.h>

#include "decide/serving.h"
#include "problems.h"

namespace partita::planning_test {
namespace {

plan::ServingProblem many_pools(std::uint64_t seed, int services) {
  Rng rng(seed);
  plan::ServingProblem problem = published_problem(rng, services, 1);
  problem.rule = {};
  EXPECT_EQ(problem.rule.kind, plan::SloRule::Kind::pooled);
  return problem;
}

decide::Made<plan::ServingPlan> made_for(const plan::ServingProblem& problem) {
  const auto planner = decide::find_planner("--planner", "exact");
  auto made = decide::make_plan(**planner, problem, {});
  EXPECT_TRUE(made) << to_string(made.error());  // the judge has passed it
  return *std::move(made);
}

TEST(Many, PoolsFillWholeGpusAndTheJudgePassesThem) {
  const plan::ServingProblem problem = many_pools(3, 320);
  const auto made = made_for(problem);
  ASSERT_TRUE(made.plan);
  const plan::Objective& objective = (*made.plan)->objective;
  EXPECT_GT(objective.lower_bound_gpus, 50);
  EXPECT_LE(objective.gpus, objective.lower_bound_gpus * 1.05);
  EXPECT_LE(objective.gpus, (objective.gpcs + 6) / 7 + 2);
}

TEST(Many, TooFewGpusAreRefusedWithTheNumberThatIsNeeded) {
  plan::ServingProblem problem = many_pools(3, 320);
  problem.fleet[0].count = 20;
  const auto made = made_for(problem);
  ASSERT_FALSE(made.plan);
  ASSERT_EQ(made.refusals.size(), 1u);
  EXPECT_EQ(made.refusals[0].constraint, "fleet_count");
  EXPECT_EQ(made.refusals[0].have, 20);
  EXPECT_GT(made.refusals[0].need, 50);
}

// A bound is proportional to the rates: that of a plan that can be made tells those of others.
TEST(Many, MoreGpusThanAPlanMayHaveAreRefusedAtOnce) {
  plan::ServingProblem problem = many_pools(3, 2);
  for (plan::Service& service : problem.services) service.rate = service.rate * 20;
  const auto small = made_for(problem);
  ASSERT_TRUE(small.plan);
  const double each = (*small.plan)->objective.lower_bound_gpus;
  for (const double times : {1e4, 1e7}) {
    plan::ServingProblem large = problem;
    for (plan::Service& service : large.services) service.rate = service.rate * times;
    const auto made = made_for(large);
    ASSERT_FALSE(made.plan);
    EXPECT_EQ(made.refusals[0].constraint, "fleet_count");
    EXPECT_EQ(made.refusals[0].have, planners::serving::kMostPlannedGpus);
    // Of very many a plain bound is said: what the largest service needs, an instance a slice.
    EXPECT_GT(made.refusals[0].need, (times > 1e6 ? 0.05 : (each - 1) / each) * times * each);
    EXPECT_LE(made.refusals[0].need, times * each);
  }
}

TEST(Many, WhoCannotBeServedIsNamed) {
  plan::ServingProblem problem = many_pools(3, 320);
  problem.services[17].slo = Millis{1};
  const auto made = made_for(problem);
  ASSERT_FALSE(made.plan);
  ASSERT_EQ(made.refusals.size(), 1u);
  EXPECT_EQ(made.refusals[0].subject, "service " + problem.services[17].name);
}

}  // namespace
}  // namespace partita::planning_test
