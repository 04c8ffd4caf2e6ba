// Who asks for less never gets more GPUs: a looser promise, a lower rate, shorter answers.
#include <gtest/gtest.h>

#include <functional>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "planners/serving/exact.h"
#include "planners/serving/testing/token_cases.h"

namespace partita::planners::serving {
namespace {

plan::ServingProblem random_service(Rng& rng) {
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  plan::Service one;
  one.name = "a";
  one.model = made_up_models()[rng.below(4)].name;
  one.rate = Rps{1 + 30 * rng.uniform()};
  one.percentile = rng.below(2) == 0 ? 90 : 95;
  one.tokens = plan::TokenTerms{
      .ttft = Millis{500 + 3000 * rng.uniform()},
      .tpot = Millis{30 + 70 * rng.uniform()},
      .lengths = plan::TokenPair{plan::LognormalTokens{100 + 900 * rng.uniform(), 0.7},
                                 plan::LognormalTokens{50 + 200 * rng.uniform(), 0.6}}};
  problem.services.push_back(one);
  return problem;
}

// 0: no plan.
int gpus_of(const plan::ServingProblem& problem) {
  const Outcome made = plan_exact(problem, {});
  return made.plan ? made.plan->objective.gpus : 0;
}

TEST(Monotone, AskingForLessNeverTakesMoreGpus) {
  const std::function<void(plan::Service&, double)> looser[] = {
      [](plan::Service& one, double by) { one.rate = one.rate * (1 / by); },
      [](plan::Service& one, double by) { one.tokens->ttft = by * one.tokens->ttft; },
      [](plan::Service& one, double by) { one.tokens->tpot = by * one.tokens->tpot; },
      [](plan::Service& one, double) { one.percentile -= 5; }};
  const int pairs = test_rounds(12);
  int planned = 0;
  for (int pair = 0; pair < pairs; ++pair) {
    Rng rng(static_cast<std::uint64_t>(pair) + 900);
    const plan::ServingProblem strict = random_service(rng);
    plan::ServingProblem loose = strict;
    const std::size_t which = rng.below(std::size(looser));
    looser[which](loose.services[0], rng.below(2) == 0 ? 1.03 : 1.5);
    const int more = gpus_of(strict);
    if (more == 0) continue;
    const int less = gpus_of(loose);
    ++planned;
    EXPECT_GT(less, 0) << "pair " << pair << " change " << which;
    EXPECT_LE(less, more) << "pair " << pair << " change " << which;
  }
  EXPECT_GT(planned, pairs / 2);
}

// Answers as long as a tail of one percent decides, which draws see differently each time.
TEST(Monotone, MoreEvenArrivalsNeverTakeMoreGpus) {
  const int rounds = test_rounds(4);
  int planned = 0;
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 70);
    plan::ServingProblem problem;
    problem.fleet.push_back(made_up_fleet());
    plan::Service& one = problem.services.emplace_back();
    one.name = "a";
    one.model = made_up_models()[rng.below(3)].name;
    one.rate = Rps{0.5 + 6 * rng.uniform()};
    one.percentile = rng.below(2) == 0 ? 95 : 98;
    one.slo = Millis{6000 + 12'000 * rng.uniform()};
    one.tokens = plan::TokenTerms{
        .lengths = plan::TokenPair{plan::LognormalTokens{200 + 800 * rng.uniform(), 1},
                                   plan::LognormalTokens{100 + 100 * rng.uniform(), 1}}};
    const auto with = [&](plan::Arrivals arrivals) {
      one.traffic.arrivals = arrivals;
      return gpus_of(problem);
    };
    const int poisson = with(plan::PoissonArrivals{});
    const int even = with(plan::EvenArrivals{}), half = with(plan::GammaArrivals{0.5});
    const int uneven = with(plan::GammaArrivals{2});
    if (poisson == 0) continue;
    ++planned;
    EXPECT_GT(even, 0) << round;
    EXPECT_LE(even, poisson) << round;
    EXPECT_GT(half, 0) << round;
    EXPECT_LE(half, poisson) << round;
    if (uneven > 0) {
      EXPECT_GE(uneven, poisson) << round;
    }
  }
  EXPECT_GT(planned, rounds / 2);
}

}  // namespace
}  // namespace partita::planners::serving
