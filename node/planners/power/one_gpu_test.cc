#include "planners/power/one_gpu.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "plan/testing/random_power.h"
#include "planners/power/policies.h"

namespace partita::power {
namespace {

using plan::Gating;

TEST(BusyPower, IsLinearBetweenTheBatches) {
  const BusyPower busy{{{{10}, {20}}, {{30}, {40}}}};
  EXPECT_DOUBLE_EQ(busy.at({0}).value, 0);
  EXPECT_DOUBLE_EQ(busy.at({5}).value, 10);
  EXPECT_DOUBLE_EQ(busy.at({20}).value, 30);
  EXPECT_DOUBLE_EQ(busy.at({99}).value, 40);
  EXPECT_DOUBLE_EQ(busy.full().value, 40);
}

TEST(ReadyPower, GatedUnitsTakeNothingAboveRest) {
  plan::ResponseTable table;
  table.units_in = {3, 3};
  table.idle = {10};
  table.clocks = {{{1000}, {70}}};  // 10 W per unit
  EXPECT_DOUBLE_EQ(ready_power(table, Gating::none, 0, 2).value, 70);
  EXPECT_DOUBLE_EQ(ready_power(table, Gating::group, 0, 2).value, 40);
  EXPECT_DOUBLE_EQ(ready_power(table, Gating::group, 0, 4).value, 70);
  EXPECT_DOUBLE_EQ(ready_power(table, Gating::unit, 0, 2).value, 30);
}

// Every combination of options, looked at one by one.
double brute_force(const plan::PowerProblem& problem, const std::vector<ServiceOptions>& options,
                   std::size_t clocks_from) {
  double best = 1e300;
  for (std::size_t c = clocks_from; c < problem.table.clocks.size(); ++c) {
    const std::function<void(std::size_t, int, double)> walk = [&](std::size_t s, int used,
                                                                   double watts) {
      if (used > problem.table.units()) return;
      if (s == options.size()) {
        best = std::min(best, watts + ready_power(problem.table, problem.gating, c, used).value);
        return;
      }
      for (const ServiceOption& option : options[s][c])
        if (option.capacity >= problem.services[s].rate)
          walk(s + 1, used + option.units, watts + option.busy.at(problem.services[s].rate).value);
    };
    walk(0, 0, 0);
  }
  return best;
}

TEST(OneGpu, FindsWhatTryingEverythingFinds) {
  int solved = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    const plan::PowerProblem problem =
        plan::random_power_problem(rng, 1 + static_cast<int>(seed % 3));
    const auto options = options_of(problem, BatchChoice::any);
    std::vector<const ServiceOptions*> views;
    std::vector<Rps> rates;
    for (const ServiceOptions& one : options) views.push_back(&one);
    for (const plan::Terms& service : problem.services) rates.push_back(service.rate);
    const auto best =
        best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, {}});
    const double least = brute_force(problem, options, 0);
    ASSERT_EQ(best.has_value(), least < 1e299) << seed;
    if (!best) continue;
    ++solved;
    EXPECT_NEAR(best->power.value, least, 1e-9 * least) << seed;
    EXPECT_NEAR(power_at(problem.table, problem.gating, *best, rates).value, least, 1e-9 * least);
  }
  EXPECT_GT(solved, 30);
}

TEST(OneGpu, KeepsTheCap) {
  Rng rng(3);
  plan::PowerProblem problem = plan::random_power_problem(rng, 1);
  const auto options = options_of(problem, BatchChoice::any);
  const std::vector<const ServiceOptions*> views{&options[0]};
  const std::vector<Rps> rates{problem.services[0].rate};
  const auto free = best_setting({problem.table, views}, rates, {0, {}, problem.gating, true, {}});
  ASSERT_TRUE(free);
  const Watts full = full_power(problem.table, problem.gating, *free);
  const auto capped = best_setting({problem.table, views}, rates,
                                   {0, {}, problem.gating, true, full - Watts{0.01}});
  if (capped) {
    EXPECT_LT(full_power(problem.table, problem.gating, *capped), full);
    EXPECT_GE(capped->power, free->power);
  }
  EXPECT_FALSE(best_setting({problem.table, views}, rates,
                            {0, {}, problem.gating, true, problem.table.idle / 2}));
}

TEST(Policies, AreRefusedByNameWithTheNearest) {
  const auto policy = policy_named("cofris", Gating::none);
  ASSERT_FALSE(policy);
  EXPECT_NE(to_string(policy.error()).find("cofris-"), std::string::npos);
}

TEST(Policies, SayWhyNothingServes) {
  Rng rng(1);
  plan::PowerProblem problem = plan::random_power_problem(rng, 1);
  const Policy exact = *policy_named("exact", problem.gating);
  problem.services[0].slo = Millis{1e-3};
  auto chooser = Chooser::make(problem, exact);
  ASSERT_FALSE(chooser);
  EXPECT_EQ(chooser.error().code, ErrorCode::infeasible);
  EXPECT_NE(chooser.error().message.find("the fastest setting takes"), std::string::npos);
  problem.services[0].slo = Millis{1e4};
  problem.services[0].rate = Rps{1e6};
  chooser = Chooser::make(problem, exact);
  ASSERT_FALSE(chooser);
  EXPECT_NE(chooser.error().message.find("a whole GPU carries"), std::string::npos);
  problem.services[0].model = "nobody";
  chooser = Chooser::make(problem, exact);
  ASSERT_FALSE(chooser);
  EXPECT_NE(chooser.error().message.find("no model 'nobody'"), std::string::npos);
}

// What a policy may not touch stays; what is gated is cheaper than what is not.
TEST(Policies, KeepToWhatTheyMayChange) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 1);
    std::map<std::string, double> watts;
    for (const Policy& policy : all_policies(Gating::unit)) {
      const auto chooser = Chooser::make(problem, policy);
      if (!chooser) continue;
      const std::vector<Rps> rates{problem.services[0].rate};
      const auto setting = chooser->choose(rates);
      ASSERT_TRUE(setting) << policy.name;
      EXPECT_TRUE(policy.clocks || setting->clock == 2) << policy.name;
      EXPECT_TRUE(policy.units || setting->options[0]->units == 6) << policy.name;
      EXPECT_TRUE(policy.exact || setting->options[0]->batch == 1) << policy.name;
      watts[policy.name] = power_at(problem.table, policy.gating, *setting, rates).value;
    }
    if (!watts.contains("cofris-cu")) continue;
    EXPECT_LE(watts["exact"], watts["cofris-cu"] + 1e-9) << seed;
    EXPECT_LE(watts["rs-cu"], watts["rs-se"] + 1e-9) << seed;
  }
}

}  // namespace
}  // namespace partita::power
