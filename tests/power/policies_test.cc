// The dissertation's policies and ours on modelled tables of nine models (REEF's kernels) under a
// recorded day: the order of its Fig. 4.9, SLOs held in the simulated queues, exact never above
// CoFRIS. And fleets of them, judged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "base/source_text.h"
#include "decide/power.h"
#include "planners/power/fleet.h"
#include "planners/power/testing/published_mi50.h"
#include "verify/judge.h"

namespace partita {
namespace {

// Alone on a GPU, with an SLO of `times` its p95 on all of it, at the most that this carries.
plan::PowerProblem alone(const plan::ResponseTable& table, const std::string& model, double times) {
  plan::PowerProblem problem;
  problem.table = table;
  problem.gating = plan::Gating::unit;
  for (const plan::PowerPoint& point : table.find(model)->points)
    if (point.batch == 1) problem.services = {{model, model, {1}, point.p95 * times, 95}};
  EXPECT_TRUE(decide::to_most(problem));
  return problem;
}

TEST(PowerPolicies, StandInTheOrderOfTheDissertationAndKeepTheSlo) {
  const plan::ResponseTable table = power::published_mi50(1);
  MemoryFiles files;
  files.content["t.csv"] = source_text("data/published/swim/fb09-0.csv");
  std::map<std::string, double> sum;
  for (const std::string model : power::kPublishedModels) {
    const plan::PowerProblem problem = alone(table, model, 2);
    decide::PowerComparison how;
    how.policies = power::policy_names();
    how.known = model == std::string("vgg");
    const auto trace = decide::load_power_trace(files, {"t.csv", {180}, {2}}, problem.services);
    ASSERT_TRUE(trace) << to_string(trace.error());
    how.run.trace = *trace;
    const auto outcomes = decide::compare_power(problem, how);
    ASSERT_TRUE(outcomes) << to_string(outcomes.error());
    for (const decide::PowerOutcome& outcome : *outcomes) {
      EXPECT_TRUE(outcome.run.services[0].held()) << model << " " << outcome.policy;
      sum[outcome.policy] += std::log(outcome.run.energy / outcomes->front().run.energy) / 9;
    }
    EXPECT_LE(outcomes->at(6).run.energy, outcomes->at(5).run.energy) << model;
    if (how.known) {
      EXPECT_LE(outcomes->at(6).known->energy, outcomes->at(5).known->energy) << model;
    }
  }
  for (auto& [policy, value] : sum) value = std::exp(value);
  // Fig. 4.9: rs-se and fs alike, then cofris-se, rs-cu, cofris-cu.
  EXPECT_EQ(sum["baseline"], 1);
  EXPECT_NEAR(sum["fs"], sum["rs-se"], 0.05);
  EXPECT_LT(sum["cofris-se"], std::min(sum["fs"], sum["rs-se"]) - 0.02);
  EXPECT_LT(sum["rs-cu"], sum["cofris-se"]);
  EXPECT_LT(sum["cofris-cu"], sum["rs-cu"]);
  EXPECT_LT(sum["exact"], sum["cofris-cu"]);
}

// The dissertation's own rule does not know that requests wait for one another: at its load 1 the
// queue of Poisson arrivals grows.
TEST(PowerPolicies, ARuleWithoutQueuesMissesTheSlo) {
  plan::PowerProblem problem = alone(power::published_mi50(5), "vgg", 2);
  problem.promise = plan::PowerPromise::execution;
  ASSERT_TRUE(decide::to_most(problem));
  decide::PowerComparison how;
  how.policies = {"baseline", "cofris-cu"};
  how.control.guard = 0;
  how.control.rescue = false;
  how.run.trace = decide::steady_trace({60}, problem.services);
  const auto outcomes = decide::compare_power(problem, how);
  ASSERT_TRUE(outcomes) << to_string(outcomes.error());
  EXPECT_FALSE(outcomes->at(0).run.services[0].held());
  how.run.even = true;  // a client that sends in step never waits
  EXPECT_TRUE(decide::compare_power(problem, how)->at(0).run.services[0].held());
}

TEST(PowerFleet, IsJudgedAndNearItsBound) {
  plan::PowerProblem problem;
  problem.table = power::published_mi50(5);
  problem.gpus = 10;
  Rng rng(1);
  for (int s = 0; s < 20; ++s) {
    const std::string model = power::kPublishedModels[rng.below(9)];
    const auto& points = problem.table.find(model)->points;
    const plan::PowerPoint& whole = points[points.size() - 4];  // batch 1 on all units
    ASSERT_EQ(whole.batch, 1);
    problem.services.push_back({"s" + std::to_string(s), model,
                                whole.max_rate * (0.1 * rng.uniform() + 0.001),
                                whole.p95 * (3 + 3 * rng.uniform()), 95});
  }
  const power::FleetOutcome outcome = power::plan_fleet(problem, {});
  ASSERT_TRUE(outcome.plan);
  const auto verdict = verify::judge(problem, *outcome.plan);
  EXPECT_TRUE(verdict) << to_string(verdict.error().violations.front());
  EXPECT_LT(outcome.plan->power / outcome.plan->bound, 1.05);
}

}  // namespace
}  // namespace partita
