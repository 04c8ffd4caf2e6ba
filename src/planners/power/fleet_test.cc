#include "planners/power/fleet.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "plan/random_power.h"
#include "planners/power/one_gpu.h"
#include "planners/power/response.h"

namespace partita::power {
namespace {

// Of services that are not split: every way to deal them to the GPUs, each GPU solved exactly.
double least_unsplit(const plan::PowerProblem& problem) {
  const auto options = options_of(problem, BatchChoice::any);
  const std::size_t services = options.size();
  std::map<unsigned, double> of_set;
  const auto gpu = [&](unsigned set) {
    const auto known = of_set.find(set);
    if (known != of_set.end()) return known->second;
    std::vector<const ServiceOptions*> views;
    std::vector<Rps> rates;
    for (std::size_t s = 0; s < services; ++s)
      if ((set >> s & 1U) != 0) {
        views.push_back(&options[s]);
        rates.push_back(problem.services[s].rate);
      }
    double watts = unused_power(problem).value;
    if (!views.empty()) {
      const auto best =
          best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, {}});
      watts = best ? best->power.value : 1e300;
    }
    return of_set[set] = watts;
  };
  std::vector<unsigned> sets(static_cast<std::size_t>(problem.gpus));
  double best = 1e300;
  const std::function<void(std::size_t)> deal = [&](std::size_t s) {
    if (s == services) {
      double watts = 0;
      for (const unsigned set : sets) watts += gpu(set);
      best = std::min(best, watts);
      return;
    }
    for (unsigned& set : sets) {
      set |= 1U << s;
      deal(s + 1);
      set &= ~(1U << s);
    }
  };
  deal(0);
  return best;
}

double carried(const plan::PowerPlan& plan, const std::string& service) {
  double rate = 0;
  for (const plan::PowerGpu& gpu : plan.gpus)
    for (const plan::PowerShare& share : gpu.shares)
      if (share.service == service) rate += share.rate.value;
  return rate;
}

// The bound lies below every plan, and what is found is hardly above the best without splitting.
TEST(Fleet, LiesBetweenItsBoundAndTheBestUnsplitPlan) {
  int solved = 0;
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 5);
    problem.gpus = 3;
    const double least = least_unsplit(problem);
    const FleetOutcome outcome = plan_fleet(problem, {});
    if (least < 1e299) {
      ASSERT_TRUE(outcome.plan) << seed << outcome.refusals.front().detail;
      EXPECT_LE(outcome.plan->bound.value, least * (1 + 1e-9)) << seed;
      worst = std::max(worst, outcome.plan->power.value / least - 1);
      ++solved;
    }
    if (!outcome.plan) continue;
    EXPECT_LE(outcome.plan->bound, outcome.plan->power);
    for (const plan::PowerService& service : problem.services)
      EXPECT_NEAR(carried(*outcome.plan, service.name), service.rate.value,
                  1e-6 * service.rate.value);
  }
  EXPECT_GT(solved, 20);
  EXPECT_LT(worst, 0.02);
}

TEST(Fleet, OneGpuIsProven) {
  Rng rng(5);
  const plan::PowerProblem problem = plan::random_power_problem(rng, 2);
  const FleetOutcome outcome = plan_fleet(problem, {});
  ASSERT_TRUE(outcome.plan);
  EXPECT_TRUE(outcome.plan->optimal);
  EXPECT_NEAR(outcome.plan->power.value, least_unsplit(problem), 1e-9 * outcome.plan->power.value);
}

TEST(Fleet, WithoutLoadAllGpusAreUnused) {
  Rng rng(5);
  plan::PowerProblem problem = plan::random_power_problem(rng, 0);
  problem.gpus = 4;
  const FleetOutcome outcome = plan_fleet(problem, {});
  ASSERT_TRUE(outcome.plan);
  EXPECT_EQ(outcome.plan->unused_gpus, 4);
  EXPECT_DOUBLE_EQ(outcome.plan->power.value, 4 * problem.table.idle.value);
  problem.unused = Watts{0};
  EXPECT_DOUBLE_EQ(plan_fleet(problem, {}).plan->power.value, 0);
}

TEST(Fleet, RefusesWhatDoesNotFitWithAReason) {
  Rng rng(5);
  plan::PowerProblem problem = plan::random_power_problem(rng, 3);
  problem.gpus = 2;
  problem.services[1].rate = problem.services[1].rate * 1e4;
  FleetOutcome outcome = plan_fleet(problem, {});
  EXPECT_FALSE(outcome.plan);
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_NE(outcome.refusals[0].detail.find("more than 2 GPUs"), std::string::npos);
  problem.services[1].slo = Millis{0.01};
  outcome = plan_fleet(problem, {});
  ASSERT_FALSE(outcome.refusals.empty());
  EXPECT_NE(outcome.refusals[0].detail.find("service s1: the SLO is 0.01 ms"), std::string::npos);
}

}  // namespace
}  // namespace partita::power
