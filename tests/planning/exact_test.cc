// The exact planner against oracles: exhaustive search, CBC, the judge, and laws that any optimum
// obeys.
#include "planners/serving/exact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "problems.h"
#include "verify/serving.h"

namespace partita::planning_test {
namespace {

using planners::serving::Outcome;
using planners::serving::plan_exact;

// Plans and lets the judge look; a refusal or a violation fails the test.
plan::ServingPlan planned(const plan::ServingProblem& problem) {
  Outcome outcome = plan_exact(problem, {});
  for (const plan::Reason& refusal : outcome.refusals) ADD_FAILURE() << to_string(refusal);
  if (!outcome.plan) return {};
  for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
    ADD_FAILURE() << to_string(violation);
  return *outcome.plan;
}

TEST(Exact, ScenariosReachTheKnownOptimaWithProof) {
  const std::pair<int, int> optima[] = {{2, 10}, {3, 20}, {5, 30}, {7, 44}, {12, 82}, {16, 104}};
  for (int s = 1; s <= 6; ++s) {
    const plan::Objective objective = planned(scenario(s)).objective;
    EXPECT_EQ(std::pair(objective.gpus, objective.gpcs), optima[s - 1]) << "S" << s;
    EXPECT_TRUE(objective.optimal) << "S" << s;
    EXPECT_EQ(objective.lower_bound_gpus, objective.gpus) << "S" << s;
  }
}

TEST(Exact, ManyCopiesOfAScenarioStayOptimal) {
  plan::ServingProblem problem = scenario(5);
  const auto services = problem.services;
  for (int copy = 1; copy < 10; ++copy)
    for (plan::Service service : services) {
      service.name += "-" + std::to_string(copy);
      problem.services.push_back(service);
    }
  const plan::Objective objective = planned(problem).objective;
  EXPECT_EQ(objective.gpus, 118);
  EXPECT_EQ(objective.gpcs, 820);
  EXPECT_TRUE(objective.optimal);
}

TEST(Exact, EqualsExhaustiveSearch) {
  Rng rng(1);
  const std::string gpus[] = {"A100-80GB", "A30-24GB", "H200-141GB", "RTX-PRO-6000-96GB"};
  for (int round = 0; round < test_rounds(1500); ++round) {
    const auto problem = random_problem(rng, gpus[round % 4], 3, 1 + 3 * rng.uniform());
    const plan::Objective objective = planned(problem).objective;
    EXPECT_EQ(std::pair(objective.gpus, objective.gpcs), brute_force(problem)) << round;
    EXPECT_TRUE(objective.optimal) << round;
  }
}

TEST(Exact, EqualsCbc) {
  Rng rng(2);
  int compared = 0;
  for (int round = 0; round < test_rounds(40); ++round) {
    const auto problem = round % 2 ? random_problem(rng, "A100-80GB", 8, 20 * rng.uniform())
                                   : published_problem(rng, 1 + static_cast<int>(rng.below(8)), 2);
    const auto optimum = milp(problem);
    if (!optimum) continue;
    ++compared;
    const plan::Objective objective = planned(problem).objective;
    EXPECT_EQ(objective.gpus, std::lround(optimum->first)) << round;
    EXPECT_EQ(objective.gpcs, optimum->gpcs) << round;
    EXPECT_TRUE(objective.optimal) << round;
  }
  if (compared == 0) GTEST_SKIP() << "CBC is not built in";
}

// Two GPU models with prices: least price, then the judge; CBC knows the least price.
TEST(Exact, PricedFleetsEqualCbc) {
  Rng rng(4);
  int compared = 0;
  for (int round = 0; round < test_rounds(20); ++round) {
    auto problem = random_problem(rng, "A100-80GB", 4, 6);
    plan::FleetEntry small;
    small.gpu = *hw::builtin_catalogue().find("A30-24GB");
    small.price = 1;
    problem.fleet[0].price = 1.5 + rng.uniform();
    for (const auto& [name, profile] : problem.fleet[0].profiles) {
      auto scaled = profile;
      scaled.points.clear();
      for (profile::ProfilePoint point : profile.points) {
        point.throughput = 0.9 * point.throughput;
        if (point.gpcs == 1 || point.gpcs == 2 || point.gpcs == 4) scaled.points.push_back(point);
      }
      small.profiles[name] = scaled;
    }
    problem.fleet.push_back(small);
    const auto optimum = milp(problem);
    if (!optimum) continue;
    ++compared;
    const plan::Objective objective = planned(problem).objective;
    EXPECT_NEAR(objective.cost, optimum->first, 1e-6) << round;
    EXPECT_NEAR(objective.lower_bound_cost, optimum->first, 1e-6) << round;
  }
  if (compared == 0) GTEST_SKIP() << "CBC is not built in";
}

TEST(Exact, OrderAndNamesOfServicesDoNotMatter) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(50); ++round) {
    auto problem = random_problem(rng, "A100-80GB", 8, 10);
    const plan::Objective before = planned(problem).objective;
    std::reverse(problem.services.begin(), problem.services.end());
    for (plan::Service& service : problem.services) service.name = "renamed-" + service.name;
    EXPECT_EQ(planned(problem).objective, before);
  }
}

TEST(Exact, LessWorkNeverNeedsMore) {
  Rng rng(6);
  for (int round = 0; round < test_rounds(50); ++round) {
    auto problem = random_problem(rng, "H100-80GB-SXM5", 8, 10);
    const plan::Objective before = planned(problem).objective;
    auto looser = problem;
    for (plan::Service& service : looser.services) service.rate = 0.9 * service.rate;
    const plan::Objective after = planned(looser).objective;
    EXPECT_LE(std::pair(after.gpus, after.gpcs), std::pair(before.gpus, before.gpcs));
    // Scaling rates and throughputs together changes nothing.
    for (plan::Service& service : problem.services) service.rate = 3.0 * service.rate;
    for (auto& [name, profile] : problem.fleet[0].profiles)
      for (auto& point : profile.points) point.throughput = 3.0 * point.throughput;
    EXPECT_EQ(planned(problem).objective, before);
  }
}

TEST(Exact, ReplicasAndSpreadAreKept) {
  Rng rng(7);
  for (int round = 0; round < test_rounds(60); ++round) {
    auto problem = random_problem(rng, "A100-80GB", 5, 2);
    const plan::Objective free = planned(problem).objective;
    for (plan::Service& service : problem.services) {
      service.min_replicas = 1 + static_cast<int>(rng.below(3));
      service.spread = rng.below(2) == 0;
    }
    if (problem.services.size() > 1) problem.services[0].avoid = {problem.services[1].name};
    const plan::Objective bound = planned(problem).objective;  // the judge checks the constraints
    EXPECT_GE(bound.gpus, free.gpus);
    EXPECT_LE(bound.lower_bound_gpus, bound.gpus);
  }
}

TEST(Exact, SpreadReplicasNeedAsManyGpus) {
  Rng rng(8);
  auto problem = random_problem(rng, "A100-80GB", 1, 0.1);
  problem.services[0].min_replicas = 4;
  EXPECT_EQ(planned(problem).objective.gpus, 1);
  problem.services[0].spread = true;
  const plan::Objective objective = planned(problem).objective;
  EXPECT_EQ(objective.gpus, 4);
  EXPECT_TRUE(objective.optimal);
}

TEST(Exact, ManySpreadReplicasFindTheirPlace) {
  Rng rng(11);
  auto problem = random_problem(rng, "A100-80GB", 1, 0.1);
  problem.services[0].min_replicas = 300;
  problem.services[0].spread = true;
  EXPECT_EQ(planned(problem).objective.gpus, 300);
}

// The cheaper model does not suffice and has a count; the other has none.
TEST(Exact, AScarceModelIsFilledUpFromAnUnboundedOne) {
  Rng rng(12);
  for (int round = 0; round < test_rounds(30); ++round) {
    auto problem = random_problem(rng, "A100-80GB", 6, 20);
    plan::FleetEntry other = problem.fleet[0];
    other.gpu = *hw::builtin_catalogue().find("H100-80GB-SXM5");
    problem.fleet[0].count = static_cast<int>(rng.below(3));
    other.price = 1.5;
    problem.fleet.push_back(other);
    const int alone = planned({problem.services, {other}, problem.rule}).objective.gpus;
    const plan::Objective objective = planned(problem).objective;
    // Both models pack alike, so the fleet needs as many GPUs as one model alone.
    EXPECT_NEAR(objective.cost, 1.5 * alone - 0.5 * std::min(alone, *problem.fleet[0].count), 1e-9);
  }
}

TEST(Exact, MemoryPutsAPointOntoTheDoubleMemoryShape) {
  plan::ServingProblem problem;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  plan::FleetEntry entry;
  entry.gpu = *hw::builtin_catalogue().find("A100-80GB");
  entry.profiles["m"] = {"m", {{1, 1, 1, Rps{100}, Millis{5}, Mib{15000}}}};
  problem.fleet.push_back(entry);
  plan::Service service;
  service.name = service.model = "m";
  service.rate = Rps{450};
  service.slo = Millis{100};
  problem.services.push_back(service);
  const plan::ServingPlan plan = planned(problem);
  EXPECT_EQ(plan.objective.gpus, 2);  // four 1g.20gb to a GPU
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const auto& instance : gpu.instances) EXPECT_EQ(instance.profile, "1g.20gb");
}

TEST(Exact, RefusesWithTheConstraintAndByHowMuch) {
  Rng rng(9);
  auto problem = random_problem(rng, "A100-80GB", 3, 60);
  problem.services[0].rate = Rps{20'000};
  problem.services[0].slo = Millis{15};  // every point takes 10 ms, the rule allows 7.5
  const Outcome missed = plan_exact(problem, {});
  ASSERT_FALSE(missed.plan);
  ASSERT_EQ(missed.refusals.size(), 1u);
  EXPECT_EQ(missed.refusals[0].constraint, "slo");
  EXPECT_EQ(missed.refusals[0].subject, "service m0");
  EXPECT_DOUBLE_EQ(missed.refusals[0].have, 10);
  EXPECT_DOUBLE_EQ(missed.refusals[0].need, 7.5);

  problem.services[0].slo = Millis{100};
  const int gpus = planned(problem).objective.gpus;
  ASSERT_GT(gpus, 1);
  problem.fleet[0].count = gpus;
  EXPECT_EQ(planned(problem).objective.gpus, gpus);
  problem.fleet[0].count = gpus - 1;
  const Outcome few = plan_exact(problem, {});
  ASSERT_FALSE(few.plan);
  ASSERT_EQ(few.refusals.size(), 1u);
  EXPECT_EQ(few.refusals[0].constraint, "fleet_count");
  EXPECT_EQ(few.refusals[0].need, gpus);

  problem.services[0].model = "nobody";
  EXPECT_EQ(plan_exact(problem, {}).refusals.at(0).constraint, "unknown_model");
}

TEST(Exact, SameProblemSamePlan) {
  Rng rng(10);
  const auto problem = random_problem(rng, "A100-80GB", 20, 30);
  EXPECT_EQ(planned(problem), planned(problem));
}

}  // namespace
}  // namespace partita::planning_test
