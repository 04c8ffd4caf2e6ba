// The incremental planner against oracles: exhaustive search over tiny fleets, the judge, planning
// from scratch matched to what runs, and keeping everything.
#include "planners/serving/incremental.h"

#include <gtest/gtest.h>

#include "hw/catalogue.h"
#include "oracle.h"
#include "planners/serving/exact.h"
#include "verify/serving.h"

namespace partita::incremental_test {
namespace {

using planners::serving::Changes;
using planners::serving::changes_between;
using planners::serving::CurvePoint;
using planners::serving::incremental;
using planners::serving::IncrementalOptions;
using planners::serving::IncrementalOutcome;
using planners::serving::plan_exact;

// Plans again and checks what must always hold.
IncrementalOutcome planned(const plan::ServingProblem& problem, const plan::ServingPlan& current) {
  IncrementalOutcome result = incremental(problem, current, {});
  EXPECT_TRUE(result.outcome.plan.has_value());
  if (!result.outcome.plan) return result;
  for (const plan::Reason& violation : verify::verify(problem, *result.outcome.plan))
    ADD_FAILURE() << to_string(violation);
  const Changes changes = changes_between(current, *result.outcome.plan);
  EXPECT_EQ(changes, result.changes);
  EXPECT_EQ(changes.moved + changes.created, result.curve.at(0).moves);
  for (std::size_t i = 0; i < result.curve.size(); ++i) {
    EXPECT_LE(result.curve[i].lower_bound, result.curve[i].moves);
    if (i > 0) {
      EXPECT_GT(result.curve[i].gpus, result.curve[i - 1].gpus);
      EXPECT_LE(result.curve[i].moves, result.curve[i - 1].moves);
    }
  }
  return result;
}

TEST(Incremental, EqualsExhaustiveSearch) {
  Rng rng(1);
  int proven = 0, points = 0;
  for (int round = 0; round < 300; ++round) {
    const plan::ServingProblem before = random_problem(rng, "A30-24GB", 3, 5);
    plan::ServingPlan current = *plan_exact(before, {}).plan;
    if (current.gpus.size() > 3) continue;
    shuffle(rng, current);
    const plan::ServingProblem after = changed(rng, before, 0.6);
    const IncrementalOutcome result = planned(after, current);
    if (!result.outcome.plan || result.curve.back().gpus > 4) continue;
    EXPECT_EQ(result.curve[0].gpus, plan_exact(after, {}).plan->objective.gpus);
    for (const CurvePoint& point : result.curve) {
      EXPECT_EQ(point.moves, fewest_creations(after, current, point.gpus)) << round;
      ++points;
      proven += point.proven() ? 1 : 0;
    }
  }
  EXPECT_GT(points, 300);
  EXPECT_EQ(proven, points);
}

TEST(Incremental, NeverWorseThanMatchingFromScratchOrKeepingEverything) {
  Rng rng(2);
  const std::string gpus[] = {"A100-80GB", "A30-24GB", "H200-141GB", "RTX-PRO-6000-96GB"};
  for (int round = 0; round < 120; ++round) {
    const auto before = random_problem(rng, gpus[round % 4], 8, 2 + 8 * rng.uniform());
    plan::ServingPlan current = *plan_exact(before, {}).plan;
    shuffle(rng, current);
    const auto after = changed(rng, before, 0.3);
    const IncrementalOutcome result = planned(after, current);
    if (!result.outcome.plan) continue;
    const plan::ServingPlan scratch = *plan_exact(after, {}).plan;
    EXPECT_EQ(result.outcome.plan->objective.gpus, scratch.objective.gpus);
    const Changes matched = changes_between(current, matched_to(current, scratch));
    EXPECT_LE(result.curve[0].moves, matched.moved + matched.created) << round;
    EXPECT_EQ(result.curve.back().moves, missing_when_all_is_kept(after, current)) << round;
    EXPECT_TRUE(result.curve.back().proven());
  }
}

// The bound of --max-moves against exhaustive search: the fewest GPUs that suffice.
TEST(Incremental, MaxMovesTakesTheFewestGpusThatItAllows) {
  Rng rng(3);
  int refused = 0, larger = 0;
  for (int round = 0; round < 80; ++round) {
    const plan::ServingProblem before = random_problem(rng, "A30-24GB", 2, 5);
    plan::ServingPlan current = *plan_exact(before, {}).plan;
    if (current.gpus.size() > 3) continue;
    shuffle(rng, current);
    const plan::ServingProblem after = changed(rng, before, 0.8);
    const int fewest = plan_exact(after, {}).plan->objective.gpus;
    for (int moves = 0; moves <= 3 && fewest <= 3; ++moves) {
      IncrementalOptions options;
      options.max_moves = moves;
      const IncrementalOutcome result = incremental(after, current, options);
      const int least = missing_when_all_is_kept(after, current);
      ASSERT_EQ(result.outcome.plan.has_value(), moves >= least) << round;
      if (!result.outcome.plan) {
        ++refused;
        EXPECT_EQ(result.outcome.refusals.at(0).constraint, "max_moves");
        EXPECT_EQ(result.outcome.refusals[0].need, least);
        continue;
      }
      const plan::ServingPlan& plan = *result.outcome.plan;
      EXPECT_TRUE(verify::verify(after, plan).empty());
      EXPECT_LE(result.changes.moved + result.changes.created, moves);
      larger += plan.objective.gpus > fewest ? 1 : 0;
      if (plan.objective.gpus > fewest) {
        EXPECT_GT(fewest_creations(after, current, plan.objective.gpus - 1), moves) << round;
      }
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(larger, 0);
}

// Anti-affinity, replicas, counts and several GPU models: the judge accepts, and nothing is worse
// than planning from scratch.
TEST(Incremental, ConstraintsHold) {
  Rng rng(4);
  int plans = 0;
  for (int round = 0; round < 200; ++round) {
    plan::ServingProblem before = random_problem(rng, "A100-80GB", 6, 1 + 4 * rng.uniform());
    if (round % 3 == 0) {
      plan::FleetEntry other = before.fleet[0];
      other.gpu = *hw::builtin_catalogue().find("H200-141GB");
      other.price = 1.3;
      before.fleet.push_back(other);
    }
    if (round % 4 == 0) before.fleet[0].count = 1 + static_cast<int>(rng.below(4));
    const auto current = plan_exact(before, {}).plan;
    if (!current) continue;
    plan::ServingPlan shuffled = *current;
    shuffle(rng, shuffled);
    plan::ServingProblem after = changed(rng, before, 0.4);
    for (plan::Service& service : after.services) {
      if (rng.below(3) == 0) service.min_replicas = 1 + static_cast<int>(rng.below(3));
      if (rng.below(4) == 0) service.spread = true;
      if (rng.below(4) == 0 && service.name != after.services[0].name)
        service.avoid = {after.services[0].name};
    }
    const auto scratch = plan_exact(after, {}).plan;
    if (!scratch) continue;
    ++plans;
    const IncrementalOutcome result = planned(after, shuffled);
    if (!result.outcome.plan) continue;
    EXPECT_LE(result.outcome.plan->objective.cost, scratch->objective.cost + 1e-9) << round;
    const Changes matched = changes_between(shuffled, matched_to(shuffled, *scratch));
    EXPECT_LE(result.curve[0].moves, matched.moved + matched.created) << round;
  }
  EXPECT_GT(plans, 100);
}

// The curve and the plan from scratch say the same, whatever runs: a plan for other rates and
// rules, or the plan itself.
TEST(Incremental, TheCurveOfServicesThatKeepApartAgreesWithThePlan) {
  Rng rng(6);
  int moved = 0;
  for (int round = 0; round < 200; ++round) {
    const auto before = random_problem(rng, "A100-80GB", 6, 1 + 4 * rng.uniform());
    plan::ServingPlan current = *plan_exact(before, {}).plan;
    auto after = changed(rng, before, 0.5);
    for (plan::Service& service : after.services) {
      service.spread = rng.below(3) == 0;
      for (const plan::Service& other : after.services)
        if (other.name != service.name && rng.below(4) == 0) service.avoid.push_back(other.name);
    }
    if (round % 3 == 0) current = *plan_exact(after, {}).plan;
    shuffle(rng, current);
    const auto scratch = *plan_exact(after, {}).plan;
    ASSERT_TRUE(scratch.objective.optimal) << round;
    const IncrementalOutcome result = planned(after, current);
    ASSERT_TRUE(result.outcome.plan) << round;
    const auto& plan = *result.outcome.plan;
    EXPECT_EQ(result.curve[0].gpus, static_cast<int>(plan.gpus.size())) << round;
    EXPECT_EQ(result.curve[0].gpus, scratch.objective.gpus) << round;
    EXPECT_GE(plan.objective.gpcs, scratch.objective.gpcs) << round;
    EXPECT_EQ(plan.objective.optimal, plan.objective.gpcs == scratch.objective.gpcs) << round;
    const Changes matched = changes_between(current, matched_to(current, scratch));
    EXPECT_LE(result.curve[0].moves, matched.moved + matched.created) << round;
    if (verify::verify(after, current).empty()) {
      EXPECT_EQ(result.curve.back().moves, 0) << round;
      EXPECT_LE(result.curve.back().gpus, static_cast<int>(current.gpus.size())) << round;
    }
    moved += result.curve[0].moves > 0 ? 1 : 0;
  }
  EXPECT_GT(moved, 50);
}

plan::PlannedInstance one_g(int start, int batch = 1) {
  return {"1g.6gb", start, "m", batch, 1, Rps{10}, Millis{10}};
}

TEST(Incremental, LessWorkFreesGpusWithoutCreations) {
  plan::ServingPlan current;
  current.gpus = {{3, "A30-24GB", {one_g(0), one_g(1), one_g(2), one_g(3)}},
                  {7, "A30-24GB", {one_g(0), one_g(1), one_g(2), one_g(3)}}};
  const IncrementalOutcome half = planned(by_hand(40), current);
  EXPECT_EQ(half.changes, (Changes{4, 0, 0, 0, 4}));
  EXPECT_EQ(half.outcome.plan->gpus.size(), 1U);
  const IncrementalOutcome less = planned(by_hand(25), current);
  EXPECT_EQ(less.changes, (Changes{3, 0, 0, 0, 5}));
  EXPECT_EQ(less.outcome.plan->objective.gpcs, 3);
}

TEST(Incremental, RestartsOnlyWhatMustCarryMore) {
  plan::ServingPlan current;
  current.gpus = {{0, "A30-24GB", {one_g(0, 2), one_g(1, 2), one_g(2, 2), one_g(3, 1)}}};
  EXPECT_EQ(planned(by_hand(25), current).changes, (Changes{4, 0, 0, 0, 0}));
  EXPECT_EQ(planned(by_hand(26), current).changes, (Changes{3, 1, 0, 0, 0}));
  plan::ServingProblem strict = by_hand(26);
  strict.services[0].slo = Millis{50};  // batch 2 is too slow now
  EXPECT_EQ(planned(strict, current).changes, (Changes{1, 2, 0, 0, 1}));
}

TEST(Incremental, WhatCannotBeKeptIsNot) {
  plan::ServingPlan current;
  plan::PlannedInstance nobody = one_g(0), stranger = one_g(1), odd = one_g(2);
  nobody.service = "";
  stranger.service = "gone";
  odd.profile = "5g.30gb";
  plan::PlannedInstance inside{"2g.12gb", 2, "m", 1, 1, Rps{20}, Millis{10}}, illegal = inside;
  illegal.start = 1;
  current.gpus = {{0, "A30-24GB", {nobody, stranger, odd, inside, one_g(3)}},
                  {0, "A30-24GB", {one_g(0)}},
                  {1, "A100-80GB", {one_g(0)}},
                  {2, "", {illegal}}};
  const IncrementalOutcome result = planned(by_hand(40), current);
  EXPECT_EQ(result.curve[0].gpus, 1);
  // 30 stay on GPU 0, which is listed twice; the 1g at 3 overlaps the 2g.
  EXPECT_EQ(result.changes, (Changes{2, 0, 1, 0, 6}));
  EXPECT_EQ(result.outcome.plan->gpus[0].index, 0);
  // Indices of GPUs of other models stay theirs.
  const IncrementalOutcome more = planned(by_hand(80), current);
  for (const plan::PlannedGpu& gpu : more.outcome.plan->gpus) EXPECT_NE(gpu.index, 1);
}

TEST(Incremental, NothingChangesWhenNothingChanged) {
  Rng rng(5);
  for (int round = 0; round < 60; ++round) {
    const auto problem = random_problem(rng, "A100-80GB", 8, 8);
    const plan::ServingPlan current = *plan_exact(problem, {}).plan;
    const IncrementalOutcome result = planned(problem, current);
    int instances = 0;
    for (const plan::PlannedGpu& gpu : current.gpus)
      instances += static_cast<int>(gpu.instances.size());
    EXPECT_EQ(result.changes.moved + result.changes.created + result.changes.restarted, 0);
    EXPECT_EQ(result.changes.kept + result.changes.removed, instances);
    EXPECT_LE(result.outcome.plan->objective.gpcs, current.objective.gpcs);
  }
}

}  // namespace
}  // namespace partita::incremental_test
