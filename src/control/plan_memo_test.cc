// What is remembered never changes an answer: the same asks with one memo for all of them, and each
// with a memo of its own.
#include "control/plan_memo.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/planning.h"
#include "profile/readers.h"

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

TEST(PlanMemo, ForgetsTheOldestQuestions) {
  Remembered<int, int> kept;
  for (int i = 0; i < 100; ++i) kept.keep(i, 2 * i);
  ASSERT_NE(kept.find(99), nullptr);
  EXPECT_EQ(*kept.find(99), 198);
  EXPECT_EQ(kept.find(0), nullptr);
}

}  // namespace
}  // namespace partita::control
