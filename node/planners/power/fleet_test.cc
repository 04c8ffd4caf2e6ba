#include "planners/power/fleet.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "plan/testing/random_power.h"
#include "planners/power/one_gpu.h"
#include "planners/power/patterns.h"
#include "planners/power/response.h"
#include "planners/power/testing/published_mi50.h"

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

// Two GPUs: every way to give each service's rate to them in sixths, each GPU solved exactly.
double least_in_sixths(const plan::PowerProblem& problem) {
  const auto options = options_of(problem, BatchChoice::any);
  const std::size_t services = options.size();
  const auto gpu = [&](const std::vector<int>& sixths) {
    std::vector<const ServiceOptions*> views;
    std::vector<Rps> rates;
    for (std::size_t s = 0; s < services; ++s)
      if (sixths[s] > 0) {
        views.push_back(&options[s]);
        rates.push_back(problem.services[s].rate * (sixths[s] / 6.0));
      }
    if (views.empty()) return unused_power(problem).value;
    const auto best =
        best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, {}});
    return best ? best->power.value : 1e300;
  };
  std::map<std::vector<int>, double> of_parts;
  double best = 1e300;
  std::vector<int> parts(services, 0), rest(services, 6);
  const std::function<void(std::size_t)> deal = [&](std::size_t s) {
    if (s == services) return void(of_parts[parts] = gpu(parts));
    for (parts[s] = 0; parts[s] <= 6; ++parts[s]) deal(s + 1);
    parts[s] = 0;
  };
  deal(0);
  for (const auto& [one, watts] : of_parts) {
    for (std::size_t s = 0; s < services; ++s) rest[s] = 6 - one[s];
    best = std::min(best, watts + of_parts.at(rest));
  }
  return best;
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
    for (const plan::Terms& service : problem.services)
      EXPECT_NEAR(carried(*outcome.plan, service.name), service.rate.value,
                  1e-6 * service.rate.value);
  }
  EXPECT_GT(solved, 20);
  EXPECT_LT(worst, 0.02);
}

// A cap takes settings away: what is least without it stays a bound, and the plan where the cap
// takes nothing away is proven.
TEST(Fleet, OneGpuUnderACapHasABound) {
  int same = 0, dearer = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 2);
    problem.gpus = 1;
    problem.cap.reset();
    const FleetOutcome free = plan_fleet(problem, {});
    if (!free.plan) continue;
    for (const double share : {1.0, 0.97, 0.94}) {
      problem.cap = Watts{free.plan->gpus[0].cap.value * share};
      const FleetOutcome capped = plan_fleet(problem, {});
      if (!capped.plan) continue;
      EXPECT_EQ(capped.plan->bound, free.plan->power) << seed;
      EXPECT_GE(capped.plan->power, capped.plan->bound) << seed;
      EXPECT_EQ(capped.plan->optimal, capped.plan->power == free.plan->power) << seed;
      ++(capped.plan->optimal ? same : dearer);
    }
  }
  EXPECT_GT(same, 10);
  EXPECT_GT(dearer, 0);
}

// Also where services have to be split: rates up to what two GPUs carry.
TEST(Fleet, LiesBetweenItsBoundAndTheBestPlanInSixths) {
  int solved = 0, split = 0;
  double worst = 0, above = 0, gaps = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 3);
    problem.gpus = 2;
    for (plan::Terms& service : problem.services)
      service.rate = service.rate * (1 + 8 * rng.uniform());
    const double least = least_in_sixths(problem);
    if (least > 1e299) continue;
    const FleetOutcome outcome = plan_fleet(problem, {});
    ASSERT_TRUE(outcome.plan) << seed << outcome.refusals.front().detail;
    EXPECT_LE(outcome.plan->bound.value, least * (1 + 1e-9)) << seed;
    const double more = outcome.plan->power.value / least - 1;  // below 0: other parts are better
    worst = std::max(worst, more);
    above += more;
    gaps += outcome.plan->power / outcome.plan->bound - 1;
    ++solved;
    if (least < least_unsplit(problem) * (1 - 1e-9)) ++split;
  }
  EXPECT_GT(solved, 20);
  EXPECT_GT(split, 5);
  EXPECT_LT(worst, 0.06);
  EXPECT_LT(above / solved, 0.001);
  EXPECT_LT(gaps / solved, 0.03);
}

// Forty services on 20 GPUs, the models and the table of the dissertation's board.
TEST(Fleet, ComesNearItsBoundOnPublishedModels) {
  for (const plan::Gating gating : {plan::Gating::none, plan::Gating::unit}) {
    plan::PowerProblem problem;
    problem.table = published_mi50(5);
    problem.gpus = 20;
    problem.gating = gating;
    Rng rng(1);
    for (int s = 0; s < 40; ++s) {
      const plan::ModelResponse& model = problem.table.models[rng.below(9)];
      const plan::PowerPoint& whole = model.points[model.points.size() - 4];
      problem.services.push_back({"s" + std::to_string(s), model.model,
                                  whole.max_rate * (0.1 * rng.uniform()),
                                  whole.p95 * static_cast<double>(2 + rng.below(4)), 95});
    }
    const FleetOutcome outcome = plan_fleet(problem, {});
    ASSERT_TRUE(outcome.plan);
    EXPECT_LT(outcome.plan->power / outcome.plan->bound, 1.02);
    EXPECT_LE(outcome.plan->gpus.size(), 20u);
    for (const plan::Terms& service : problem.services)
      EXPECT_NEAR(carried(*outcome.plan, service.name), service.rate.value,
                  1e-6 * service.rate.value);
    EXPECT_EQ(plan_fleet(problem, {}).plan, outcome.plan);
  }
}

// The programme's prices are worth no more than any way to run a GPU takes: services, clocks, units
// and parts at random.
TEST(Fleet, NoPatternIsWorthMoreThanThePricesSay) {
  int patterns = 0;
  double closest = 1e300;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 4);
    problem.gpus = 3;
    const auto options = options_of(problem, BatchChoice::any);
    const PatternPricing pricing(problem, options);
    const PatternPricing::Wanted wanted{
        {30 * rng.uniform(), 30 * rng.uniform(), 30 * rng.uniform(), 30 * rng.uniform()},
        {1, 1, 1, 1},
        0,
        {},
        {20 * rng.uniform(), 20 * rng.uniform(), 20 * rng.uniform(), 20 * rng.uniform()}};
    const double most = pricing.best(wanted).most;
    for (int trial = 0; trial < 3000; ++trial) {
      const std::size_t clock = rng.below(3);
      int units = 0;
      double worth = 0;
      for (std::size_t s = 0; s < 4; ++s) {
        if (options[s][clock].empty() || rng.uniform() < 0.4) continue;
        const ServiceOption& option = options[s][clock][rng.below(options[s][clock].size())];
        const double fits = std::min(1.0, option.capacity / problem.services[s].rate);
        const double part = rng.uniform() < 0.5 ? fits : fits * rng.uniform();
        units += option.units;
        worth += wanted.prices[s] * part + wanted.whole[s] * (part == 1 ? 1 : 0.5) -
                 option.busy.at(problem.services[s].rate * part).value;
      }
      if (units == 0 || units > problem.table.units()) continue;
      worth -= ready_power(problem.table, problem.gating, clock, units).value;
      EXPECT_LE(worth, most + 1e-9) << seed;
      closest = std::min(closest, most - worth);
      ++patterns;
    }
  }
  EXPECT_GT(patterns, 10'000);
  EXPECT_LT(closest, 1e-9);  // and one is worth as much
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
