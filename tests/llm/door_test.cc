// Language models under more than they carry, with the door that the gateway has: who is refused,
// and what that is worth.
#include <gtest/gtest.h>

#include "planners/serving/exact.h"
#include "planners/serving/testing/token_cases.h"
#include "sim/serving.h"

namespace partita::llm_test {
namespace {

plan::ServingProblem chatting(double rate) {
  plan::ServingProblem problem;
  problem.fleet.push_back(planners::serving::made_up_fleet());
  plan::Service service{.name = "chat", .model = "m8", .rate = Rps{rate}, .percentile = 95};
  service.tokens = plan::TokenTerms{
      .ttft = Millis{800},
      .tpot = Millis{50},
      .lengths = plan::TokenPair{plan::LognormalTokens{600, 0.6}, plan::LognormalTokens{150, 0.6}}};
  problem.services.push_back(service);
  return problem;
}

sim::ServiceReport played(const plan::ServingProblem& problem, const plan::ServingPlan& plan,
                          bool shed) {
  sim::ServingOptions options;
  options.duration = Seconds{300};
  options.warmup = Seconds{30};
  options.shed = shed;
  const auto report = sim::simulate(problem, plan, options);
  EXPECT_TRUE(report) << to_string(report.error());
  return report ? report->services[0] : sim::ServiceReport{};
}

TEST(Door, RefusesWhoWouldBeLateAndKeepsThePromiseToTheOthers) {
  const plan::ServingProblem usual = chatting(10);
  const auto made = planners::serving::plan_exact(usual, {});
  ASSERT_TRUE(made.plan);
  const auto at = [&](double times, bool shed) {
    return played(chatting(10 * times), *made.plan, shed);
  };
  // By half of what it carries nobody is late, and nobody is refused.
  const sim::ServiceReport calm = at(0.5, true);
  EXPECT_EQ(calm.refused, 0);
  EXPECT_EQ(calm.completed, calm.offered);
  // At all of it no more are refused than may be late.
  const sim::ServiceReport full = at(1, true);
  EXPECT_GE(full.slo_attainment, 0.95);
  EXPECT_LE(static_cast<double>(full.refused), 0.05 * static_cast<double>(full.offered));
  // At three times as much all would be late; some are refused, and most of the others are in time.
  const sim::ServiceReport open = at(3, false), shut = at(3, true);
  EXPECT_EQ(open.refused, 0);
  EXPECT_LT(open.slo_attainment, 0.3);
  EXPECT_GT(shut.refused, 0);
  EXPECT_EQ(shut.refused + shut.completed, shut.offered);
  EXPECT_GT(shut.slo_attainment, 2 * open.slo_attainment);
  EXPECT_LE(shut.tokens->ttft_p50.value, 800);
  EXPECT_LE(shut.tokens->ttft_p99.value, 1.25 * 800);
  EXPECT_GT(open.tokens->ttft_p50.value, 10 * 800);
}

// Where the first token has no promise nobody is refused for it, but none waits longer than the
// gateway lets it.
TEST(Door, LetsNobodyWaitLongerThanAMinute) {
  plan::ServingProblem problem = chatting(10);
  problem.services[0].tokens->ttft = Millis{0};
  const auto made = planners::serving::plan_exact(problem, {});
  ASSERT_TRUE(made.plan);
  problem.services[0].rate = Rps{60};
  const sim::ServiceReport open = played(problem, *made.plan, false);
  const sim::ServiceReport shut = played(problem, *made.plan, true);
  EXPECT_GT(open.tokens->ttft_p99.value, 100'000);
  EXPECT_LE(shut.tokens->ttft_p99.value, 70'000);
  EXPECT_GT(shut.refused, 0);
}

// What was measured at the tail counts in what is played as it does in plan and judge: the same
// requests take as much longer, and so fewer of them are in time.
TEST(Door, PlaysWhatWasMeasuredAtTheTail) {
  const plan::ServingProblem means = chatting(10);
  const auto made = planners::serving::plan_exact(means, {});
  ASSERT_TRUE(made.plan);
  plan::ServingProblem tails = means;
  const profile::TailMargin ttft{.times = 3, .more_ms = 100}, tpot{.times = 1.5, .more_ms = 1e9};
  for (auto& [model, engines] : tails.fleet[0].engines)
    for (profile::TokenEngine& engine : engines) engine.ttft_tail = ttft, engine.tpot_tail = tpot;
  const sim::ServiceReport is = played(tails, *made.plan, false);
  const sim::ServiceReport was = played(means, *made.plan, false);
  EXPECT_DOUBLE_EQ(is.tokens->ttft_p50.value, ttft.of(was.tokens->ttft_p50.value));
  EXPECT_DOUBLE_EQ(is.tokens->ttft_p99.value, ttft.of(was.tokens->ttft_p99.value));
  EXPECT_DOUBLE_EQ(is.tokens->tpot_p99.value, tpot.of(was.tokens->tpot_p99.value));
  EXPECT_GT(is.p99, was.p99);
  EXPECT_LT(is.slo_attainment, was.slo_attainment);
}

}  // namespace
}  // namespace partita::llm_test
