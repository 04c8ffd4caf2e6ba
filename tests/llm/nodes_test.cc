// Groups of GPUs in nodes of any size, against every way to fill such nodes.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "decide/serving.h"
#include "hw/catalogue.h"
#include "planners/serving/token_points.h"
#include "verify/groups.h"

namespace partita::llm_test {
namespace {

// A model that was measured on 1, 2, 4 and 8 GPUs, or on some of these.
plan::ServingProblem problem_of(Rng& rng) {
  plan::ServingProblem problem;
  plan::FleetEntry& entry = problem.fleet.emplace_back();
  entry.gpu = *hw::builtin_model("A100-80GB");
  entry.node_gpus = 1 + static_cast<int>(rng.below(12));
  entry.count = 1 + static_cast<int>(rng.below(30));
  for (const int gpus : {1, 2, 4, 8}) {
    if (rng.below(3) == 0) continue;
    profile::TokenEngine& engine = entry.engines["lm"].emplace_back();
    engine.name.configuration = "on " + std::to_string(gpus);
    engine.gpus = gpus;
    const double speed = gpus * (0.7 + 0.6 * rng.uniform());
    engine.spec.cost = {.step = 8 / speed, .sequence = 0.05, .prompt_token = 0.04 / speed};
    engine.spec.sequences = 64;
  }
  plan::Service& service = problem.services.emplace_back();
  service.name = "chat";
  service.model = "lm";
  service.percentile = 90;
  service.rate = Rps{2 + 60 * rng.uniform()};
  service.tokens = plan::TokenTerms{.ttft = Millis{1500}, .tpot = Millis{60}};
  service.tokens->lengths = plan::TokenPair{500, 100};
  return problem;
}

// Whether nodes hold groups of 8, 4, 2 and 1, by trying every node for each.
bool fits(std::vector<int> room, const int (&groups)[4], int which = 0, int placed = 0) {
  if (which == 4) return true;
  if (placed == groups[which]) return fits(room, groups, which + 1);
  std::vector<int> tried;
  for (int& left : room) {
    if (left < (8 >> which) || std::ranges::count(tried, left) > 0) continue;
    tried.push_back(left);
    left -= 8 >> which;
    if (fits(room, groups, which, placed + 1)) return true;
    left += 8 >> which;
  }
  return false;
}

// Fewest GPUs whose groups are within nodes; 0: there is no way.
int fewest_gpus(const plan::ServingProblem& problem) {
  const plan::FleetEntry& entry = problem.fleet[0];
  planners::serving::TokenOracle oracle;
  double rates[4] = {};
  for (const profile::TokenEngine& engine : entry.engines.at("lm"))
    for (int which = 0; which < 4; ++which)
      if (engine.gpus == 8 >> which)
        rates[which] = oracle.rate(problem.services[0], engine).rate.value;
  std::vector<int> room(static_cast<std::size_t>(*entry.count / entry.node_gpus), entry.node_gpus);
  room.push_back(*entry.count % entry.node_gpus);
  int best = 0;
  for (int gpus = 1; gpus <= *entry.count && best == 0; ++gpus)
    for (int a = 0; 8 * a <= gpus; ++a)
      for (int b = 0; 8 * a + 4 * b <= gpus; ++b)
        for (int c = 0; 8 * a + 4 * b + 2 * c <= gpus; ++c) {
          const int groups[4] = {a, b, c, gpus - 8 * a - 4 * b - 2 * c};
          double carried = 0;
          for (int which = 0; which < 4; ++which) carried += groups[which] * rates[which];
          if (carried >= plan::planning_rate(problem.services[0]).value * (1 - 1e-12) &&
              fits(room, groups))
            best = gpus;
        }
  return best;
}

TEST(Nodes, groups_are_packed_within_them_as_well_as_can_be) {
  int planned = 0, refused = 0, uneven = 0;
  const int rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 300);
    const plan::ServingProblem problem = problem_of(rng);
    if (!problem.fleet[0].engines.contains("lm")) continue;
    const int fewest = fewest_gpus(problem);
    const auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
    ASSERT_TRUE(made) << round << ": " << made.error().message;  // the judge passes it
    EXPECT_EQ(made->plan ? (*made->plan)->objective.gpus : 0, fewest) << round;
    ++(made->plan ? planned : refused);
    if (!made->plan) continue;
    for (const plan::PlannedGpu& gpu : (*made->plan)->gpus) {
      EXPECT_LT(gpu.index, *problem.fleet[0].count) << round;
      uneven += problem.fleet[0].node_gpus % gpu.instances.front().group != 0;
    }
  }
  EXPECT_GT(planned, rounds / 4);
  EXPECT_GT(refused, rounds / 12);
  EXPECT_GT(uneven, 0);
}

// Of a node whose second GPU is taken out; and on more than the last node has.
TEST(Nodes, have_gaps_in_their_numbers_and_no_more_gpus_than_they_have) {
  Rng rng(1);
  plan::ServingProblem problem = problem_of(rng);
  plan::FleetEntry& entry = problem.fleet[0];
  plan::ServingPlan plan;
  const auto faults = [&](std::vector<int> numbers, int count, int node_gpus) {
    entry.count = count;
    entry.node_gpus = node_gpus;
    plan.gpus.clear();
    for (const int number : numbers) {
      plan::PlannedInstance one{"7g.80gb", 0, "a", 1, 1, Rps{1}, Millis{1}};
      one.group = 4;
      plan.gpus.push_back({number, entry.gpu.name, {one}});
    }
    verify::Findings findings;
    verify::check_groups(plan, entry, true, findings);
    return findings.take().size();
  };
  EXPECT_EQ(faults({0, 2, 3, 4}, 4, 8), 0U);
  EXPECT_EQ(faults({0, 1, 2, 3}, 3, 8), 2U);  // nowhere
  EXPECT_EQ(faults({8, 9, 10, 11}, 12, 8), 0U);
  EXPECT_EQ(faults({8, 9, 10, 11}, 10, 8), 1U);  // the last node has two
  EXPECT_EQ(faults({6, 7, 8, 9}, 16, 8), 1U);    // in two nodes
}

// Two GPUs of each are over, for whoever needs one or two.
TEST(Nodes, of_six_hold_one_group_of_four) {
  Rng rng(1);
  plan::ServingProblem problem = problem_of(rng);
  plan::FleetEntry& entry = problem.fleet[0];
  entry.node_gpus = 6;
  entry.count = 24;
  profile::TokenEngine engine;
  engine.name.configuration = "on 4";
  engine.gpus = 4;
  engine.spec.cost = {.step = 2, .sequence = 0.05, .prompt_token = 0.01};
  engine.spec.sequences = 64;
  entry.engines = {{"lm", {engine}}};
  planners::serving::TokenOracle oracle;
  const Rps each = oracle.rate(problem.services[0], engine).rate;
  const auto plan_at = [&](double groups) {
    problem.services[0].rate = each * groups;
    auto made = decide::make_plan(**decide::find_planner("", "exact"), problem, {});
    EXPECT_TRUE(made);
    return *std::move(made);
  };
  EXPECT_EQ((*plan_at(3.9).plan)->objective.gpus, 16);
  EXPECT_EQ((*plan_at(3.9).plan)->gpus.back().index, 21);
  EXPECT_FALSE(plan_at(4.1).plan);
  const auto refused = plan_at(40);  // by the fluid bound, too
  ASSERT_FALSE(refused.plan);
  EXPECT_EQ(refused.refusals.front().constraint, "fleet_count");
  entry.count = 3;
  const auto few = plan_at(0.5);
  ASSERT_FALSE(few.plan);
  EXPECT_EQ(few.refusals.front().constraint, "fleet_count");
  EXPECT_EQ(few.refusals.front().have, 3);
  EXPECT_EQ(few.refusals.front().need, 4);
  engine.gpus = 2;  // the same with one of two that is too slow
  engine.spec.cost.step = 100;
  entry.engines.at("lm").push_back(engine);
  const auto slow = plan_at(0.5);
  ASSERT_FALSE(slow.plan);
  EXPECT_EQ(slow.refusals.front().constraint, "fleet_count");
  EXPECT_EQ(slow.refusals.front().need, 4);
}

}  // namespace
}  // namespace partita::llm_test
