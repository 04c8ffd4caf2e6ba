#include "verify/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <type_traits>

#include "plan/digest.h"

namespace partita::verify {
namespace {

using plan::ServingPlan;
using plan::ServingProblem;
using testing::ElementsAre;
using testing::IsEmpty;

// Nobody else makes one.
template <class... From>
constexpr bool kMade = std::is_constructible_v<plan::Judged<ServingPlan>, From...>;
static_assert(!kMade<> && !kMade<ServingPlan> && !kMade<ServingPlan, std::string>);
static_assert(!std::is_aggregate_v<plan::Judged<ServingPlan>>);

// One service on one 1g.10gb, by execution latency: 100 req/s at 10 ms, of which 60 are needed.
ServingProblem chat_problem() {
  ServingProblem problem;
  plan::Service& service = problem.services.emplace_back();
  service.name = "chat";
  service.model = "lm";
  service.rate = Rps{60};
  service.slo = Millis{100};
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  profile::ProfileTable table;
  table["lm"] = {"lm", {{1, 1, 1, Rps{100}, Millis{10}, {}}, {2, 1, 1, Rps{150}, Millis{6}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  return problem;
}

ServingPlan chat_plan() {
  ServingPlan plan;
  plan.gpu_model = "A100-80GB";
  plan.planner = "hand";
  plan.rule = chat_problem().rule;
  plan.gpus = {{0, "A100-80GB", {{"1g.10gb", 0, "chat", 1, 1, Rps{100}, Millis{10}}}}};
  plan.services = {{{.name = "chat", .rate = Rps{60}, .slo = Millis{100}}, Rps{100}, Millis{10}}};
  plan.objective = {.gpus = 1, .gpcs = 1, .cost = 1};
  return plan;
}

std::vector<std::string> refusals_of(const Verdict<ServingPlan>& verdict) {
  std::vector<std::string> all;
  if (!verdict)
    for (const plan::Reason& reason : verdict.error().violations) all.push_back(reason.constraint);
  return all;
}

TEST(Judge, StampsWhatIsRight) {
  const auto verdict = judge(chat_problem(), chat_plan());
  ASSERT_THAT(refusals_of(verdict), IsEmpty());
  EXPECT_EQ(**verdict, chat_plan());
  EXPECT_EQ(verdict->problem_digest(), plan::digest(chat_problem()));
  EXPECT_EQ((*verdict)->problem_digest, plan::digest(chat_problem()));
}

TEST(Judge, RefusesPlansForOtherServicesFirst) {
  ServingProblem other = chat_problem();
  other.services[0].slo = Millis{12};  // 10 ms are too many then
  ServingPlan plan = *judge(chat_problem(), chat_plan()).value();
  EXPECT_THAT(refusals_of(judge(chat_problem(), plan)), IsEmpty());
  EXPECT_THAT(refusals_of(judge(other, plan)), ElementsAre("problem_digest", "slo", "service_row"));
  // Nothing but the digest shows that this is another problem.
  other = chat_problem();
  other.fleet[0].profiles.at("lm").points[1].throughput = Rps{151};
  EXPECT_THAT(refusals_of(judge(other, plan)), ElementsAre("problem_digest"));
  plan.problem_digest.clear();
  EXPECT_THAT(refusals_of(judge(other, plan)), IsEmpty());
}

TEST(Judge, AsksWhetherAPlanHoldsUnderAnotherRuleToo) {
  const ServingPlan plan = *judge(chat_problem(), chat_plan()).value();
  ServingProblem asked = chat_problem();
  asked.rule.fraction = 0.2;
  EXPECT_THAT(refusals_of(judge(asked, plan)), IsEmpty());
  asked.rule.fraction = 0.05;
  EXPECT_THAT(refusals_of(judge(asked, plan)), ElementsAre("slo"));
  ServingPlan forged = plan;
  forged.rule.fraction = asked.rule.fraction = 0.4;  // what `partita verify` asks then
  EXPECT_THAT(refusals_of(judge(asked, forged)), ElementsAre("problem_digest"));
  // The promise of one server handed in as that of another.
  asked = chat_problem();
  forged = plan;
  forged.rule.dispatch = asked.rule.dispatch = plan::Dispatch::shared_queue;
  EXPECT_THAT(refusals_of(judge(asked, forged)), ElementsAre("problem_digest"));
}

TEST(Judge, StampsSchedulesAndKernels) {
  plan::BatchProblem batch;
  batch.models = {*hw::builtin_catalogue().find("A30-24GB")};
  batch.gpus = {0};
  plan::BatchSchedule schedule;
  schedule.gpu_models = {"A30-24GB"};
  const auto empty = judge(batch, schedule);
  ASSERT_TRUE(empty);
  EXPECT_EQ((*empty)->problem_digest, plan::digest(batch));
  batch.gpus = {0, 0};
  schedule = **empty;
  schedule.gpu_models.push_back("A30-24GB");
  const auto other = judge(batch, schedule);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().violations.front().constraint, "problem_digest");

  const plan::KernelProblem kernels{.workers = {{"a", {{2, 4}, {3, 1}}}}, .total_units = 4};
  const hw::Topology topology = hw::generic_topology(1, 4);
  plan::PlannedKernels planned{{.workers = {{{0}, 0, 2, 3}}, .objective = 3},
                               {1, {{0, 2, 0b11, 1}}}};
  ASSERT_TRUE(judge(kernels, topology, planned));
  planned.lanes.all[0].mask = 0b111;
  const auto wide = judge(kernels, topology, planned);
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().violations.front().constraint, "lane_units");
}

// ---- plans by themselves ----

TEST(JudgeAlone, TakesWhatThePlannersMake) {
  const ServingPlan plan = *judge(chat_problem(), chat_plan()).value();
  const auto verdict = judge_alone(hw::builtin_catalogue(), plan);
  ASSERT_THAT(refusals_of(verdict), IsEmpty());
  EXPECT_EQ(verdict->problem_digest(), plan::digest(chat_problem()));
  ServingPlan empty;  // of an empty node
  empty.gpu_model = "A100-80GB";
  EXPECT_THAT(refusals_of(judge_alone(hw::builtin_catalogue(), empty)), IsEmpty());
}

TEST(JudgeAlone, NamesWhatIsWrong) {
  const auto after = [](const std::function<void(ServingPlan&)>& change) {
    ServingPlan plan = chat_plan();
    change(plan);
    return refusals_of(judge_alone(hw::builtin_catalogue(), plan));
  };
  using P = ServingPlan;
  const auto instance = [](P& p) -> plan::PlannedInstance& { return p.gpus[0].instances[0]; };
  EXPECT_THAT(after([](P&) {}), IsEmpty());
  EXPECT_THAT(after([](P& p) { p.services.clear(); }), ElementsAre("unknown_service"));
  EXPECT_THAT(
      after([](P& p) {
        p.services.push_back({{.name = "idle", .rate = Rps{1}, .slo = Millis{9}}, Rps{1}, {}});
      }),
      ElementsAre("missing_service", "service_row"));
  EXPECT_THAT(after([](P& p) { p.services.push_back(p.services[0]); }),
              ElementsAre("duplicate_service"));
  EXPECT_THAT(after([](P& p) { p.services[0].planned = Rps{50}; }), ElementsAre("rate"));
  EXPECT_THAT(after([](P& p) { p.services[0].planned = Rps{101}; }), ElementsAre("service_row"));
  EXPECT_THAT(after([](P& p) { p.services[0].predicted_latency = Millis{51}; }),
              ElementsAre("slo"));
  EXPECT_THAT(after([](P& p) {
                p.rule = {};
                p.services[0].predicted_latency = Millis{std::numeric_limits<double>::infinity()};
              }),
              ElementsAre("not_finite", "slo"));
  EXPECT_THAT(after([&](P& p) { instance(p).throughput = Rps{0}; }),
              ElementsAre("throughput", "rate", "service_row"));
  EXPECT_THAT(after([&](P& p) { instance(p).start = 7; }), ElementsAre("illegal_start"));
  EXPECT_THAT(after([&](P& p) { instance(p).profile = "1g.6gb"; }), ElementsAre("unknown_profile"));
  EXPECT_THAT(after([&](P& p) { p.gpus[0].instances.push_back(instance(p)); }),
              testing::Contains("memory_slices"));
  EXPECT_THAT(after([](P& p) {
                p.gpus.push_back({0, "A100-80GB", {}});
              }),
              testing::Contains("duplicate_gpu"));
  EXPECT_THAT(after([](P& p) { p.gpus[0].model = "A100"; }),
              testing::Contains("unknown_gpu_model"));
  EXPECT_THAT(after([](P& p) { p.objective.gpcs = 2; }), ElementsAre("objective"));
}

}  // namespace
}  // namespace partita::verify
