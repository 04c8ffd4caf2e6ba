#include "verify/power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "verify/judge.h"

namespace partita::verify {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

// One clock of 1000 MHz; board 10 W at rest, 40 W clocked: 5 W per unit. A request takes 10 ms on 3
// units (60 W when busy: 0.2 J above the idle board) and 4 on all six.
plan::PowerProblem problem_of() {
  plan::PowerProblem problem;
  problem.table.gpu = "2x3";
  problem.table.units_in = {3, 3};
  problem.table.idle = {10};
  problem.table.clocks = {{{1000}, {40}}};
  problem.table.models = {{"m",
                           {{{1000}, 3, 1, {10}, {100}, {60}},
                            {{1000}, 3, 2, {16}, {125}, {64}},
                            {{1000}, 6, 1, {4}, {250}, {90}}}}};
  problem.services = {{"a", "m", {10}, {40}, 95}, {"b", "m", {20}, {40}, 95}};
  problem.gpus = 2;
  problem.gating = plan::Gating::unit;
  return problem;
}

// Both on one GPU: 40 + 20 (10/100) + 20 (20/100) = 46 W; full 40 + 24 + 20 = 84 with b in batches.
plan::PowerPlan plan_of() {
  return {"exact",
          plan::Gating::unit,
          plan::PowerPromise::queueing,
          {{{1000}, {84}, {46}, {{"a", 3, 1, {10}}, {"b", 3, 2, {20}}}}},
          1,
          {56},
          {50},
          false,
          ""};
}

std::vector<std::string> words(
    const std::function<void(plan::PowerProblem&, plan::PowerPlan&)>& change) {
  plan::PowerProblem problem = problem_of();
  plan::PowerPlan plan = plan_of();
  change(problem, plan);
  std::vector<std::string> all;
  for (const auto& reason : verify(problem, plan)) all.push_back(reason.constraint);
  return all;
}

TEST(PowerJudge, AcceptsWhatIsRight) {
  EXPECT_THAT(verify(problem_of(), plan_of()), IsEmpty());
  const auto verdict = judge(problem_of(), plan_of());
  ASSERT_TRUE(verdict);
  EXPECT_FALSE((*verdict)->problem_digest.empty());
}

TEST(PowerJudge, NamesWhatIsWrong) {
  EXPECT_THAT(words([](auto& p, auto&) { p.gpus = 1; }), ElementsAre("gpus"));
  EXPECT_THAT(words([](auto& p, auto&) { p.gating = plan::Gating::none; }), Contains("gating"));
  EXPECT_THAT(words([](auto& p, auto&) { p.promise = plan::PowerPromise::execution; }),
              ElementsAre("promise"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].clock = {900}; }), Contains("clock"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].shares[0].units = 6; }), Contains("units"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].shares[0].batch = 4; }), Contains("point"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].shares[1].service = "a"; }),
              Contains("service"));
  EXPECT_THAT(words([](auto& p, auto&) { p.services[0].rate = {11}; }), ElementsAre("rate"));
  EXPECT_THAT(words([](auto& p, auto&) { p.services[0].slo = {9}; }), ElementsAre("slo"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].cap = {83}; }), ElementsAre("cap"));
  EXPECT_THAT(words([](auto& p, auto&) { p.cap = Watts{83}; }), ElementsAre("cap"));
  EXPECT_THAT(words([](auto&, auto& q) { q.gpus[0].power = {45}; }), ElementsAre("power", "power"));
  EXPECT_THAT(words([](auto&, auto& q) { q.power = {46}; }), Contains("power"));
  EXPECT_THAT(words([](auto&, auto& q) { q.bound = {57}; }), ElementsAre("bound"));
  EXPECT_THAT(words([](auto&, auto& q) { q.optimal = true; }), ElementsAre("bound"));
}

// 40 requests/s of 10 ms, M/D/1 at load 0.4: p95 of the wait is 13.8 ms by simulation.
TEST(PowerJudge, CountsWaiting) {
  const auto at_slo = [](double slo) {
    return words([&](plan::PowerProblem& p, plan::PowerPlan& q) {
      p.services = {{"a", "m", {40}, {slo}, 95}};
      q.gpus[0] = {{1000}, {60}, {25 + 20 * 0.4}, {{"a", 3, 1, {40}}}};
      q.power = {43};
      q.bound = {0};
    });
  };
  EXPECT_THAT(at_slo(20), ElementsAre("slo"));
  EXPECT_THAT(at_slo(30), IsEmpty());
}

TEST(PowerJudge, RecomputesSchedules) {
  plan::PowerProblem problem = problem_of();
  problem.services.pop_back();
  problem.gpus = 1;
  const plan::PowerTrace trace{{2}, {{Rps{10}}, {Rps{0}}}};
  const plan::TransitionCost cost{{7}, {3}};
  // 2 s at 25 + 2 W, then 2 s on six units without work at 40 W, one change of units.
  plan::PowerSchedule schedule{"exact",
                               plan::Gating::unit,
                               plan::PowerPromise::queueing,
                               {{{1000}, {}, {3}, {1}}, {{1000}, {}, {6}, {1}}},
                               {54 + 80 + 3},
                               {100},
                               0,
                               1};
  EXPECT_TRUE(judge(problem, trace, cost, schedule));
  const auto first = [&](const plan::PowerSchedule& wrong) {
    return verify(problem, trace, cost, wrong).at(0).constraint;
  };
  plan::PowerSchedule wrong = schedule;
  wrong.energy = {134};
  EXPECT_EQ(first(wrong), "energy");
  wrong = schedule;
  wrong.unit_changes = 0;
  EXPECT_EQ(first(wrong), "changes");
  wrong = schedule;
  wrong.settings.pop_back();
  EXPECT_EQ(first(wrong), "steps");
  wrong = schedule;
  wrong.settings[1].units = {5};
  EXPECT_EQ(first(wrong), "point");
  wrong = schedule;
  wrong.bound = {138};
  EXPECT_EQ(first(wrong), "bound");
}

}  // namespace
}  // namespace partita::verify
