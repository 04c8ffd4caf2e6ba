// What is remembered never changes an answer: the same asks with one memo for all of them, and each
// with a memo of its own.
#include "control/plan_memo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/recalled.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/planning.h"
#include "decide/serving.h"
#include "profile/readers.h"
#include "verify/serving.h"

namespace partita::control {
namespace {

World memo_world() {
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
  for (const int gpcs : {1, 2, 3, 4, 7})
    for (const int batch : {1, 4, 8})
      text += fmt::format("m,{},{},1,{},{},500\n", gpcs, batch,
                          1000 * batch / (5 + 5.0 * batch / gpcs), 5 + 5.0 * batch / gpcs);
  World world;
  world.settings.node_budget = 20'000;
  world.catalogue = hw::builtin_catalogue();
  world.profiles.push_back(
      {**world.catalogue.get("A100-80GB"), *profile::parse_native_csv("p.csv", text), {}, 1});
  return world;
}

GpuUse memo_gpus(int count) {
  GpuUse use;
  for (int g = 0; g < count; ++g) use.usable.push_back({g, fmt::format("GPU-{}", g), "A100-80GB"});
  return use;
}

TEST(PlanMemo, NeverChangesAnAnswer) {
  const World world = memo_world();
  PlanMemo all;
  Rng rng(5);
  std::optional<Target> now;
  int plans = 0;
  for (int round = 0; round < std::max(10, test_rounds(60)); ++round) {
    const GpuUse use = memo_gpus(1 + static_cast<int>(rng.below(2)));
    Want want;
    for (const char* name : {"a", "b"}) {
      plan::Service& one = want.services.emplace_back();
      one.name = name;
      one.model = "m";
      one.slo = Millis{150};
      one.rate = Rps{100.0 * static_cast<double>(1 + rng.below(6))};
    }
    const std::optional<int> moves =
        rng.below(2) == 0 ? std::nullopt : std::optional(static_cast<int>(rng.below(5)));
    const PlanAsk ask{want, current_plan(use, now, {}), moves, rng.below(2) == 0};
    PlanMemo own;
    const auto fresh = plan_target(world, use, ask, own);
    for (int again = 0; again < 2; ++again) {
      const auto known = plan_target(world, use, ask, all);
      ASSERT_EQ(known.has_value(), fresh.has_value()) << round;
      if (!fresh) {
        EXPECT_EQ(to_string(known.error()), to_string(fresh.error()));
        continue;
      }
      EXPECT_EQ(known->target, fresh->target) << round;
      EXPECT_EQ(to_string(known->changes), to_string(fresh->changes));
      PlanMemo judges;
      const auto said = judge_target(world, use, {want.services, known->target}, all);
      const auto whole = judge_target(world, use, {want.services, known->target}, judges);
      ASSERT_EQ(said.has_value(), whole.has_value()) << round;
      EXPECT_TRUE(said.has_value());
    }
    if (!fresh) continue;
    ++plans;
    now = fresh->target;
  }
  EXPECT_GT(plans, 5);
}

// Only rates change, on a grid, over a long random walk: most pools are known by then, and plans,
// words and bounds are those of planner and judge without a memory.
TEST(PlanMemo, PoolsThatWereFoundBeforeAreTheSame) {
  const World world = memo_world();
  const GpuUse use = memo_gpus(4);
  PlanMemo all;
  Rng rng(8);
  std::vector<int> steps(3, 6);
  plan::ServingPlan current = current_plan(use, std::nullopt, {});
  int plans = 0;
  for (int round = 0; round < std::max(10, test_rounds(60)); ++round) {
    int& step = steps[rng.below(steps.size())];
    step = std::clamp(step + (rng.below(2) == 0 ? 1 : -1), 1, 12);
    Want want;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      plan::Service& one = want.services.emplace_back();
      one.name = fmt::format("s{}", s);
      one.model = "m";
      one.slo = Millis{60.0 + 45.0 * static_cast<double>(s)};
      one.rate = Rps{80.0 * std::pow(1.05, steps[s])};
    }
    const plan::ServingProblem problem = problem_of(world, use, want, false);
    const decide::PlanOptions bare{.node_budget = 20'000};
    decide::PlanOptions known = bare;
    known.planners_pools = &all.planners_pools;
    known.judges_pools = &all.judges_pools;
    const auto fresh = decide::make_plan_again(problem, current, std::nullopt, bare);
    const auto again = decide::make_plan_again(problem, current, std::nullopt, known);
    ASSERT_EQ(again.has_value(), fresh.has_value()) << round;
    ASSERT_TRUE(fresh.has_value()) << to_string(fresh.error());
    ASSERT_EQ(again->made.plan.has_value(), fresh->made.plan.has_value()) << round;
    if (!fresh->made.plan) continue;
    EXPECT_EQ(**again->made.plan, **fresh->made.plan) << round;
    EXPECT_EQ(to_string(again->changes), to_string(fresh->changes));
    // Too much for it: what the judge says then is the same, too.
    plan::ServingProblem more = problem;
    for (plan::Service& one : more.services) one.rate = one.rate * 1.5;
    EXPECT_EQ(verify::verify(more, **fresh->made.plan, &all.judges_pools),
              verify::verify(more, **fresh->made.plan));
    current = **fresh->made.plan;
    ++plans;
  }
  EXPECT_GT(plans, 5);
  EXPECT_GT(all.planners_pools.checked.size(), 0U);
  EXPECT_GT(all.judges_pools.driven.size(), 0U);
}

TEST(PlanMemo, AnswersThatAreAskedForAgainStayAndTheOthersGo) {
  Recalled<int, int> kept(10);
  for (int i = 0; i < 100; ++i) {
    kept.keep(i, 2 * i);
    ASSERT_NE(kept.find(0), nullptr) << i;
    EXPECT_EQ(*kept.find(0), 0);
    ASSERT_NE(kept.find(i), nullptr);
    EXPECT_EQ(*kept.find(i), 2 * i);
    EXPECT_LE(kept.size(), 12U);
  }
  EXPECT_EQ(kept.find(50), nullptr);
}

TEST(PlanMemo, ForgetsTheOldestQuestions) {
  Remembered<int, int> kept;
  for (int i = 0; i < 100; ++i) kept.keep(i, 2 * i);
  ASSERT_NE(kept.find(99), nullptr);
  EXPECT_EQ(*kept.find(99), 198);
  EXPECT_EQ(kept.find(0), nullptr);
}

}  // namespace
}  // namespace partita::control
