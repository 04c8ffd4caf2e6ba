// Prefill and decode side by side on shares of one GPU's SMs: planned where they carry more, and
// stated in the plan.
#include <gtest/gtest.h>

#include <algorithm>

#include "act/wanted.h"
#include "hw/catalogue.h"
#include "llm/engine/engines.h"
#include "planners/serving/exact.h"
#include "planners/serving/incremental.h"
#include "planners/serving/testing/token_cases.h"
#include "planners/serving/token_points.h"
#include "verify/judge.h"

namespace partita::planners::serving {
namespace {

constexpr int kUnits = 98;  // of an A100's 7g.80gb

// On so many SMs: what computes is slower in proportion, what reads memory only below half of them.
profile::TokenEngine on_units(int units) {
  profile::TokenEngine engine = *made_up_engine(made_up_models()[1], "", 1, 1);
  const double compute = 1.0 * kUnits / units, memory = std::max(1.0, 0.5 * compute);
  profile::StepCost& cost = engine.spec.cost;
  for (double* one : {&cost.step, &cost.sequence, &cost.cached_token}) *one *= memory;
  for (double* one : {&cost.prompt_token, &cost.prompt_context}) *one *= compute;
  engine.spec.step_tokens = 512;
  return engine;
}

plan::ServingProblem asking(double ttft, double tpot, double rate) {
  plan::ServingProblem problem;
  problem.fleet.push_back(made_up_fleet());
  const profile::TokenEngine whole = on_units(kUnits);
  auto& engines = problem.fleet[0].engines["m8"] = {whole};
  const auto beside = llm::beside_of({{13, on_units(13)},
                                      {27, on_units(27)},
                                      {49, on_units(49)},
                                      {85, on_units(85)},
                                      {kUnits, whole}},
                                     kUnits);
  engines.insert(engines.end(), beside.begin(), beside.end());
  plan::Service service{.name = "chat", .model = "m8", .rate = Rps{rate}};
  service.percentile = 95;
  service.tokens.emplace();
  service.tokens->ttft = Millis{ttft};
  service.tokens->tpot = Millis{tpot};
  service.tokens->lengths =
      plan::TokenPair{plan::LognormalTokens{900, 0.7}, plan::LognormalTokens{200, 0.6}};
  problem.services.push_back(service);
  return problem;
}

int gpus_for(plan::ServingProblem problem, bool lanes) {
  if (!lanes) problem.fleet[0].engines["m8"].resize(1);
  const Outcome made = plan_exact(problem, {});
  EXPECT_TRUE(made.plan);
  return made.plan ? made.plan->objective.gpus : 0;
}

TEST(BesidePlan, ArePlannedWhereTheyCarryMoreAndSayTheirShares) {
  const plan::ServingProblem problem = asking(2000, 25, 60);
  const Outcome made = plan_exact(problem, {});
  ASSERT_TRUE(made.plan);
  EXPECT_LT(made.plan->objective.gpus, gpus_for(problem, false));
  EXPECT_LE(made.plan->objective.lower_bound_gpus, made.plan->objective.gpus);
  for (const plan::PlannedGpu& gpu : made.plan->gpus)
    for (const plan::PlannedInstance& one : gpu.instances) {
      EXPECT_GT(one.prefill_units, 0);
      EXPECT_EQ(one.prefill_units + one.decode_units, kUnits);
    }
}

// The judge passes what was measured alone; what is made has its shares.
TEST(BesidePlan, OtherSharesAreFoundAndThoseOfThePlanAreMade) {
  const plan::ServingProblem problem = asking(2000, 25, 60);
  const plan::ServingPlan plan = *plan_exact(problem, {}).plan;
  const auto faults = [&](int prefill, int decode) {
    plan::ServingPlan other = plan;
    plan::PlannedInstance& one = other.gpus[0].instances[0];
    one.prefill_units += prefill;
    one.decode_units += decode;
    const auto verdict = verify::judge(problem, std::move(other));
    return verdict
               ? 0
               : std::ranges::count(verdict.error().violations, "units", &plan::Reason::constraint);
  };
  EXPECT_EQ(faults(0, 0), 0);
  EXPECT_EQ(faults(-1, 1), 1);
  EXPECT_EQ(faults(0, 1), 1);
  EXPECT_EQ(faults(-plan.gpus[0].instances[0].prefill_units, 0), 1);
  EXPECT_TRUE(actuate::check_places(plan, hw::builtin_catalogue()));
  const actuate::Wanted wanted = actuate::wanted_of(verify::judge(problem, plan).value());
  for (const actuate::WantedGpu& gpu : wanted.gpus)
    for (const actuate::WantedInstance& one : gpu.instances)
      EXPECT_EQ(one.segment.prefill_units + one.segment.decode_units, kUnits);
}

// What the incremental planner makes anew, and what it keeps, says its shares as well.
TEST(BesidePlan, StateTheirSharesWhenPlannedAgain) {
  const plan::ServingPlan now = *plan_exact(asking(2000, 25, 60), {}).plan;
  const plan::ServingProblem more = asking(2000, 25, 90);
  for (const plan::ServingPlan& current : {now, plan::ServingPlan{}}) {
    const IncrementalOutcome again = incremental(more, current, {});
    ASSERT_TRUE(again.outcome.plan);
    const auto verdict = verify::judge(more, *again.outcome.plan);
    EXPECT_TRUE(verdict) << to_string(verdict.error().violations.front());
  }
}

// A choice more is never a GPU more.
TEST(BesidePlan, NeverTakeMoreGpus) {
  for (const double ttft : {800.0, 3000.0})
    for (const double tpot : {25.0, 120.0}) {
      const plan::ServingProblem problem = asking(ttft, tpot, 30);
      EXPECT_LE(gpus_for(problem, true), gpus_for(problem, false)) << ttft << " " << tpot;
    }
}

// How many times as much of a service a GPU carries, for docs/results/llm.md.
TEST(BesidePlan, WhatTheyBring) {
  for (const double tpot : {20.0, 40.0, 120.0}) {
    const plan::ServingProblem problem = asking(2000, tpot, 1);
    double alone = 0, most = 0;
    TokenOracle oracle;
    for (const profile::TokenEngine& engine : problem.fleet[0].engines.at("m8")) {
      const double rate = oracle.rate(problem.services[0], engine).rate.value;
      (engine.prefill_units > 0 ? most : alone) =
          std::max(engine.prefill_units > 0 ? most : alone, rate);
    }
    std::printf("TPOT %g ms: %.2f/s and %.2f/s beside\n", tpot, alone, most);
    EXPECT_GT(most, 0);
  }
}

}  // namespace
}  // namespace partita::planners::serving
