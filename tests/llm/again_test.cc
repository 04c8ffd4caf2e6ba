// Language models planned again from what runs: what may stay does, and no plan is worse for it.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "decide/serving.h"
#include "planners/serving/testing/token_cases.h"
#include "profile/testing/published.h"

namespace partita::llm_test {
namespace {

using planners::serving::made_up_fleet;
using planners::serving::made_up_models;

plan::Service language(const std::string& name, Rng& rng) {
  plan::Service one;
  one.name = name;
  one.model = made_up_models()[rng.below(2)].name;
  one.rate = Rps{0.5 + 6 * rng.uniform()};
  one.percentile = 95;
  one.tokens = plan::TokenTerms{
      .ttft = Millis{1500 + 3000 * rng.uniform()},
      .tpot = Millis{40 + 60 * rng.uniform()},
      .lengths = plan::TokenPair{plan::LognormalTokens{200 + 400 * rng.uniform(), 0.7},
                                 static_cast<int>(50 + rng.below(150))}};
  return one;
}

// On MIG instances and single GPUs, beside an ordinary service.
plan::ServingProblem random_problem(Rng& rng) {
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  problem.fleet[0].profiles = profile::published_profiles();
  for (auto& [model, engines] : problem.fleet[0].engines)
    std::erase_if(engines, [](const profile::TokenEngine& one) { return one.gpus > 1; });
  for (const char* name : {"a", "b"}) problem.services.push_back(language(name, rng));
  plan::Service other;
  other.name = "other";
  other.model = "resnet50";
  other.rate = Rps{200 + 800 * rng.uniform()};
  other.slo = Millis{200};
  problem.services.push_back(other);
  return problem;
}

decide::MadeAgain again(const plan::ServingProblem& problem, const plan::ServingPlan& current,
                        std::optional<int> most = {}) {
  auto made = decide::make_plan_again(problem, current, most, {});
  EXPECT_TRUE(made) << made.error().message;
  return *std::move(made);
}

int instances(const plan::ServingPlan& plan) {
  std::size_t count = 0;
  for (const plan::PlannedGpu& gpu : plan.gpus) count += gpu.instances.size();
  return static_cast<int>(count);
}

class Again : public testing::TestWithParam<int> {};

TEST_P(Again, KeepsWhatRunsAndIsNoWorseThanAPlanFromNothing) {
  const auto planner = decide::find_planner("", "exact");
  for (int round = 0; round < test_rounds(2); ++round) {
    Rng rng(static_cast<std::uint64_t>(100 * round + GetParam()));
    plan::ServingProblem problem = random_problem(rng);
    const auto first = decide::make_plan(**planner, problem, {});
    ASSERT_TRUE(first && first->plan);
    const plan::ServingPlan& before = **first->plan;

    const decide::MadeAgain same = again(problem, before);
    ASSERT_TRUE(same.made.plan);
    EXPECT_EQ(same.changes.kept, instances(before));
    EXPECT_EQ(instances(**same.made.plan), instances(before));

    // Another rate for one, longer answers for the other.
    problem.services[0].rate = problem.services[0].rate * (0.5 + 1.5 * rng.uniform());
    std::get<plan::TokenPair>(problem.services[1].tokens->lengths).out =
        static_cast<int>(50 + rng.below(250));
    const auto fresh = decide::make_plan(**planner, problem, {});
    const decide::MadeAgain changed = again(problem, before);
    ASSERT_EQ(fresh->plan.has_value(), changed.made.plan.has_value());
    if (!fresh->plan) continue;
    EXPECT_EQ((*changed.made.plan)->objective.gpus, (*fresh->plan)->objective.gpus);
    const plan::Changes moved = changed.changes;
    EXPECT_EQ(moved.kept + moved.restarted + moved.moved + moved.created,
              instances(**changed.made.plan));
    EXPECT_LE(moved.moved + moved.created,
              plan::changes_between(before, **fresh->plan).moved +
                  plan::changes_between(before, **fresh->plan).created);
    // Every engine is said, also of what is kept.
    for (const plan::PlannedGpu& gpu : (*changed.made.plan)->gpus)
      for (const plan::PlannedInstance& one : gpu.instances)
        EXPECT_EQ(one.engine.empty(), one.service == "other");
    // What an assignment tells of has no engine; it is kept all the same.
    plan::ServingPlan unnamed = **changed.made.plan;
    for (plan::PlannedGpu& gpu : unnamed.gpus)
      for (plan::PlannedInstance& one : gpu.instances) one.engine = {};
    EXPECT_EQ(again(problem, unnamed).changes.kept, instances(unnamed));
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, Again, testing::Range(1, 9));

// From nothing, on the GPUs on which most of it runs: no more GPUs than a fresh plan, and what runs
// already stays.
TEST(AgainOnGroups, TakeAFreshPlanToWhereItRuns) {
  Rng rng(1);
  plan::ServingProblem problem = random_problem(rng);
  problem.fleet[0] = made_up_fleet();
  problem.services.pop_back();
  const auto first = decide::make_plan_again(problem, {}, {}, {});
  ASSERT_TRUE(first) << to_string(first.error());
  ASSERT_TRUE(first->made.plan);
  const auto fresh = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
  ASSERT_TRUE(fresh && fresh->plan);
  EXPECT_EQ((*first->made.plan)->objective.gpus, (*fresh->plan)->objective.gpus);
  const auto again = decide::make_plan_again(problem, **first->made.plan, {}, {});
  ASSERT_TRUE(again && again->made.plan);
  EXPECT_EQ(again->changes.moved + again->changes.created + again->changes.removed, 0);
  EXPECT_EQ((*again->made.plan)->gpus, (*first->made.plan)->gpus);
}

}  // namespace
}  // namespace partita::llm_test
