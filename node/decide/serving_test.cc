#include "decide/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decide/comparison.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "plan/digest.h"
#include "planners/serving/pool_memo.h"

namespace partita::decide {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// `services` services of 60 req/s; one 1g.10gb carries 100 req/s in batches of one.
plan::ServingProblem services_asked(int services) {
  plan::ServingProblem problem;
  for (int s = 0; s < services; ++s) {
    plan::Service& service = problem.services.emplace_back();
    service.name = "s" + std::to_string(s);
    service.model = "lm";
    service.rate = Rps{60};
    service.slo = Millis{100};
  }
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  profile::ProfileTable table;
  table["lm"] = {"lm", {{1, 1, 1, Rps{100}, Millis{10}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  return problem;
}

Planner fake(planners::serving::Outcome (*plan)(const plan::ServingProblem&,
                                                const planners::serving::Options&)) {
  return {"fake", "", "", plan};
}

const Planner& exact() { return **find_planner("--planner", "exact"); }

TEST(MakePlan, IsJudgedAndStamped) {
  const auto made = make_plan(exact(), services_asked(8), {});
  ASSERT_TRUE(made && made->plan);
  EXPECT_EQ((*made->plan)->gpus.size(), 2u);  // seven instances fit on a GPU
  EXPECT_EQ((*made->plan)->problem_digest, plan::digest(services_asked(8)));
}

TEST(MakePlan, RefusesAPlannerThatLies) {
  // It leaves out an instance, and states that all is well.
  const auto made = make_plan(fake([](const auto& asked, const auto& options) {
                                planners::serving::Outcome outcome = exact().plan(asked, options);
                                outcome.plan->gpus[0].instances.pop_back();
                                outcome.plan->objective.gpcs -= 1;
                                return outcome;
                              }),
                              services_asked(2), {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::environment);
  EXPECT_THAT(made.error().message, HasSubstr("planner 'fake' made a plan that the judge refuses"));
  EXPECT_THAT(made.error().message, HasSubstr("missing_service"));
}

plan::ServingProblem pools_asked(int services) {
  plan::ServingProblem problem = services_asked(services);
  problem.rule = {};
  return problem;
}

// Where nobody has room to spare it states a latency that the judge's own simulation refuses, and a
// bound that is higher with room than without.
planners::serving::Outcome tight_without_room(const plan::ServingProblem& asked,
                                              const planners::serving::Options& options) {
  planners::serving::Outcome outcome = exact().plan(asked, options);
  const double headroom = asked.services[1].traffic.headroom;
  outcome.plan->objective.lower_bound_gpcs = headroom > 0 ? 2 : 1;
  outcome.plan->objective.optimal = false;
  if (headroom == 0) outcome.plan->services[1].predicted_latency = Millis{1e-3};
  return outcome;
}

TEST(MakePlan, GivesMoreRoomToPoolsThatTheJudgeRefuses) {
  const auto made = make_plan(fake(tight_without_room), pools_asked(2), {});
  ASSERT_TRUE(made && made->plan);
  const plan::ServingPlan& plan = **made->plan;
  EXPECT_EQ(plan.problem_digest, plan::digest(pools_asked(2)));
  EXPECT_EQ(plan.services[1].rate, Rps{60});
  EXPECT_EQ(plan.objective.lower_bound_gpcs, 1);  // what was asked, not what was planned for
  EXPECT_FALSE(plan.objective.optimal);
}

TEST(MakePlan, GivesNoRoomForeverNorForOtherFaults) {
  const auto always = make_plan(fake([](const auto& asked, const auto& options) {
                                  planners::serving::Outcome outcome = exact().plan(asked, options);
                                  outcome.plan->services[0].predicted_latency = Millis{1e-3};
                                  return outcome;
                                }),
                                pools_asked(2), {});
  ASSERT_FALSE(always);
  EXPECT_THAT(always.error().message, HasSubstr("predicted_latency_ms"));
  const auto other = make_plan(fake([](const auto& asked, const auto& options) {
                                 planners::serving::Outcome outcome =
                                     tight_without_room(asked, options);
                                 if (asked.services[1].traffic.headroom == 0)
                                   outcome.plan->services[0].slo = Millis{7};
                                 return outcome;
                               }),
                               pools_asked(2), {});
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("slo_ms"));
}

TEST(MakePlan, RefusesAPlanForAnotherProblem) {
  const auto made = make_plan(fake([](const auto& asked, const auto& options) {
                                planners::serving::Outcome outcome = exact().plan(asked, options);
                                outcome.plan->problem_digest = "0123456789abcdef";
                                return outcome;
                              }),
                              services_asked(2), {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("problem_digest"));
}

TEST(MakePlan, PassesRefusalsWatchAndBudgetOn) {
  const Planner refuser = fake([](const auto&, const auto& options) {
    options.progress("half way");
    return planners::serving::Outcome{
        {}, {{"rate", "x", options.cpu_ms(), double(options.node_budget), ""}}};
  });
  std::string told;
  PlanOptions options;
  options.node_budget = 7;
  options.watch.cpu_ms = [] { return 3.0; };
  options.watch.progress = [&](const std::string& line) { told = line; };
  const auto made = make_plan(refuser, services_asked(1), options);
  ASSERT_TRUE(made);
  EXPECT_FALSE(made->plan);
  EXPECT_THAT(made->refusals, ElementsAre(plan::Reason{"rate", "x", 3, 7, ""}));
  EXPECT_EQ(told, "half way");
}

TEST(MakePlanAgain, KeepsWhatCanStay) {
  const auto first = make_plan(exact(), services_asked(3), {});
  ASSERT_TRUE(first && first->plan);
  const auto again = make_plan_again(services_asked(4), **first->plan, std::nullopt, {});
  ASSERT_TRUE(again && again->made.plan);
  EXPECT_EQ(again->changes, (planners::serving::Changes{.kept = 3, .created = 1}));
  const auto none = make_plan_again(services_asked(4), **first->plan, 0, {});
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->made.plan);
  EXPECT_FALSE(none->made.refusals.empty());
}

// The planner's memory says of the one pool that holds that it answers in a microsecond, which the
// judge refuses; of the same pool at 2 % more traffic it says nothing.
TEST(MakePlanAgain, GivesMoreRoomToPoolsThatTheJudgeRefuses) {
  const plan::ServingProblem asked = pools_asked(1);
  const auto first = make_plan(exact(), asked, {});
  ASSERT_TRUE(first && first->plan);
  const plan::PlannedInstance& only = (**first->plan).gpus.at(0).instances.at(0);
  const model::Pool pool = {
      {profile::batch_curve(asked.fleet[0].profiles.at("lm"), 1, only.processes, only.batch),
       only.processes}};
  const auto key = planners::serving::PoolMemo::key_of(asked.services[0], pool);
  planners::serving::PoolMemo memo;
  memo.checked.keep(key, {true, Millis{1e-3}, Rps{60}});
  PlanOptions options;
  options.planners_pools = &memo;
  const auto again = make_plan_again(asked, **first->plan, std::nullopt, options);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(again->made.plan);
  const plan::ServingPlan& plan = **again->made.plan;
  EXPECT_GT(plan.services[0].predicted_latency, Millis{1});
  EXPECT_EQ(plan.services[0].rate, Rps{60});
  EXPECT_EQ(plan.problem_digest, plan::digest(asked));
  EXPECT_EQ(again->changes, (planners::serving::Changes{.kept = 1}));
  EXPECT_EQ(memo.checked.find(key)->percentile, Millis{1e-3});  // it was asked, and lied
}

TEST(TooManyGpus, SaysWhetherFewerArePossible) {
  const plan::ServingPlan plan = **make_plan(exact(), services_asked(8), {})->plan;
  EXPECT_THAT(too_many_gpus(plan, 2), IsEmpty());
  const auto reasons = too_many_gpus(plan, 1);
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0].have, 1);
  EXPECT_EQ(reasons[0].need, 2);
  EXPECT_THAT(reasons[0].detail, HasSubstr("no plan has fewer than 2"));
  plan::ServingPlan unproven = plan;
  unproven.objective.lower_bound_gpus = 1;
  EXPECT_THAT(too_many_gpus(unproven, 1)[0].detail, HasSubstr("a larger --node-budget"));
  unproven.objective.lower_bound_gpus = 0;
  EXPECT_THAT(too_many_gpus(unproven, 1)[0].detail, HasSubstr("try --planner exact"));
}

TEST(FindPlanner, NamesTheNearest) {
  EXPECT_EQ(exact().name, "exact");
  const auto unknown = find_planner("--planner", "exakt");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().context, "--planner");
  EXPECT_THAT(unknown.error().message, HasSubstr("exact"));
}

// ---- comparisons ----

TEST(Comparison, GivesEachContestantItsRule) {
  const auto parsed =
      parse_contestants("--planners", "exact,parvagpu@execution:0.25", plan::SloRule{});
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)[0].rule, plan::SloRule{});
  EXPECT_EQ((*parsed)[1].rule, (plan::SloRule{plan::SloRule::Kind::execution, 0.25}));
  EXPECT_FALSE(parse_contestants("--planners", "exact,", plan::SloRule{}));
  EXPECT_FALSE(parse_contestants("--planners", "exact@fast", plan::SloRule{}));

  CompareOptions options;
  options.duration = Seconds{2};
  const plan::SloRule loose{plan::SloRule::Kind::execution, 0.5};
  const plan::SloRule tight{plan::SloRule::Kind::execution, 0.01};  // 10 ms are not below 1 ms
  const auto standings =
      compare(services_asked(2), {{&exact(), loose}, {&exact(), tight}}, options, {});
  ASSERT_TRUE(standings);
  ASSERT_TRUE((*standings)[0].made.plan);
  EXPECT_EQ((*standings)[0].paced.services.size(), 2u);
  EXPECT_EQ((*standings)[0].full.services.size(), 2u);
  EXPECT_FALSE((*standings)[1].made.plan);
  EXPECT_FALSE((*standings)[1].made.refusals.empty());
}

TEST(Comparison, FindsBatchesThatCannotBeFilled) {
  // Two instances share 60 req/s as 2 to 1: 40 and 20 req/s. A batch of 5 fills in 100 and 200 ms.
  plan::ServingPlan plan;
  plan.gpus = {{0,
                "A100-80GB",
                {{"1g.10gb", 0, "a", 5, 1, Rps{200}, Millis{50}},
                 {"1g.10gb", 1, "a", 5, 1, Rps{100}, Millis{50}},
                 {"1g.10gb", 2, "b", 1, 1, Rps{100}, Millis{50}}}}};
  plan.services = {{{.name = "a", .rate = Rps{60}, .slo = Millis{160}}, Rps{300}},
                   {{.name = "b", .rate = Rps{1}, .slo = Millis{60}}, Rps{100}}};
  const auto found = unfillable_batches(plan);
  ASSERT_EQ(found.size(), 1u);  // b waits for nobody
  EXPECT_EQ(found[0].service, "a");
  EXPECT_NEAR(found[0].share.value, 20, 1e-9);
  EXPECT_NEAR(found[0].fill.value, 200, 1e-9);
  plan.services[0].slo = Millis{250};
  EXPECT_THAT(unfillable_batches(plan), IsEmpty());
}

TEST(Simulate, CountsEventsPerSecondOfItsClock) {
  const auto made = make_plan(exact(), services_asked(1), {});
  sim::ServingOptions options;
  options.duration = Seconds{1};
  double now = 0;
  const auto timed = simulate(services_asked(1), *made->plan, options, [&] { return now += 500; });
  ASSERT_TRUE(timed);
  EXPECT_DOUBLE_EQ(timed->events_per_second, static_cast<double>(timed->report.events) / 0.5);
  EXPECT_EQ(worst_service(timed->report), &timed->report.services[0]);
  EXPECT_EQ(worst_service({}), nullptr);
  EXPECT_FALSE(check_traces("--arrivals", {{"s1", {}}}, services_asked(1)));
  EXPECT_TRUE(check_traces("--arrivals", {{"s0", {}}}, services_asked(1)));
}

// Of a service that nobody asked nothing was in time, and nothing late.
TEST(ServingReport, WhatNobodyAskedHasNoFigures) {
  sim::ServingReport report;
  report.services.emplace_back().name = "idle";
  report.services[0].slo_attainment = 1;
  EXPECT_THAT(report_text({}, report, {}), testing::ContainsRegex("idle +- +0 +0 +- +- +- +- +-"));
}

}  // namespace
}  // namespace partita::decide
