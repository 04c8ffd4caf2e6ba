// The incremental planner against oracles: exhaustive search over tiny fleets, the judge, planning
// from scratch matched to what runs, and keeping everything.
#include "planners/serving/incremental.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "hw/catalogue.h"
#include "hw/layout.h"
#include "oracle.h"
#include "plan/serving_forms.h"
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

}  // namespace
}  // namespace partita::incremental_test
