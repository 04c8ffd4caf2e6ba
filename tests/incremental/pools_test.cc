// Plans again for pools: where a fresh plan is found on so many GPUs, what runs is no obstacle. The
// agent asks this question at every change of a rate; a "no" means that services get less.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "planners/serving/exact.h"
#include "planners/serving/incremental.h"
#include "profile/law.h"
#include "verify/serving.h"

namespace partita::incremental_test {
namespace {

plan::ServingProblem two_services(double see, double chat) {
  static const plan::FleetEntry entry = [] {
    const hw::GpuModel& gpu = *hw::builtin_catalogue().find("A100-80GB");
    const auto laws = profile::parse_laws("laws", source_text("data/profiles/a100-80gb.json"));
    return plan::FleetEntry{gpu, profile::table_from_laws(*laws, gpu).value(), {}, 1};
  }();
  plan::ServingProblem problem;
  problem.fleet = {entry};
  problem.rule = {plan::SloRule::Kind::pooled};
  for (const auto& [model, rate, slo] :
       {std::tuple{"resnet50", see, 138.0}, std::tuple{"bert", chat, 4294.0}}) {
    plan::Service& one = problem.services.emplace_back();
    one.name = one.model = model;
    one.rate = Rps{rate};
    one.slo = Millis{slo};
  }
  return problem;
}

// From what runs at 2,000 req/s to other rates, on no more GPUs than a fresh plan takes.
TEST(Pools, WhatRunsIsNoObstacle) {
  const auto current = planners::serving::plan_exact(two_services(2000, 30), {});
  ASSERT_TRUE(current.plan);
  Rng rng(5);
  const int rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    const double see = 400 + 4400 * rng.uniform();
    plan::ServingProblem problem = two_services(see, 10 + 90 * rng.uniform());
    const auto fresh = planners::serving::plan_exact(problem, {});
    ASSERT_TRUE(fresh.plan);
    problem.fleet[0].count = fresh.plan->objective.gpus;
    const auto again = planners::serving::incremental(problem, *current.plan, {});
    ASSERT_TRUE(again.outcome.plan)
        << see << " req/s: " << to_string(again.outcome.refusals.front());
    for (const plan::Reason& violation : verify::verify(problem, *again.outcome.plan))
      ADD_FAILURE() << see << ": " << to_string(violation);
  }
}

}  // namespace
}  // namespace partita::incremental_test
