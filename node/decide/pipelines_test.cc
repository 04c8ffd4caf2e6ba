#include "decide/pipelines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "decide/serving.h"
#include "decide/simulate.h"
#include "forms/pipeline_form.h"
#include "planners/serving/incremental_finish.h"

namespace partita::decide {
namespace {

double cost_of(const SplitQuestion& question, const Shares& shares) {
  double sum = 0;
  for (const auto& [name, costs] : question.costs)
    for (const ShareCost& cost : costs)
      if (cost.share == shares.at(name)) sum += cost.gpcs;
  return sum;
}
bool fits(const SplitQuestion& question, const Shares& shares) {
  for (const SplitQuestion::Way& way : question.ways) {
    double sum = 0;
    for (const std::string& step : way.steps) sum += shares.at(step).value;
    if (sum > way.most.value + 1e-9) return false;
  }
  return true;
}
// Over all choices; infinity: none fits.
double least_of(const SplitQuestion& question, std::map<std::string, std::vector<ShareCost>> left,
                Shares chosen) {
  if (left.empty())
    return fits(question, chosen) ? cost_of(question, chosen)
                                  : std::numeric_limits<double>::infinity();
  const auto step = *left.begin();
  left.erase(left.begin());
  double least = std::numeric_limits<double>::infinity();
  for (const ShareCost& cost : step.second) {
    chosen[step.first] = cost.share;
    least = std::min(least, least_of(question, left, chosen));
  }
  return least;
}

TEST(CheapestSplit, IsWhatAllChoicesTogetherHave) {
  Rng rng(7);
  int none = 0;
  for (int round = 0; round < 300; ++round) {
    SplitQuestion question;
    const std::vector<std::string> names{"a", "b", "c", "d"};
    for (const std::string& name : names) {
      double share = 1, gpcs = 20;
      for (std::uint64_t i = 0; i <= rng.below(4); ++i) {
        share += 1 + static_cast<double>(rng.below(20));
        gpcs -= 1 + static_cast<double>(rng.below(4));
        question.costs[name].push_back({Millis{share}, gpcs});
      }
    }
    for (std::uint64_t w = 0; w <= rng.below(3); ++w) {
      SplitQuestion::Way way;
      for (const std::string& name : names)
        for (std::uint64_t times = rng.below(3); times > 0; --times) way.steps.push_back(name);
      way.most = Millis{10 + static_cast<double>(rng.below(90))};
      question.ways.push_back(way);
    }
    const Shares found = cheapest_split(question);
    const double least = least_of(question, question.costs, {});
    if (found.empty()) {
      ++none;
      EXPECT_TRUE(std::isinf(least));
      continue;
    }
    EXPECT_TRUE(fits(question, found));
    EXPECT_DOUBLE_EQ(cost_of(question, found), least);
  }
  EXPECT_GT(none, 5);
  EXPECT_LT(none, 250);
}

// A fast model and a slow one: batches of one take 2 and 20 ms on a slice.
plan::ServingProblem two_models() {
  plan::ServingProblem problem;
  profile::ProfileTable table;
  for (const auto& [name, ms] : {std::pair{"fast", 2.0}, {"slow", 20.0}}) {
    profile::WorkloadProfile& model = table[name];
    model.model = name;
    for (const int gpcs : {1, 2, 3, 4, 7})
      for (const int batch : {1, 2, 4, 8}) {
        const double latency = ms * (0.5 + 0.5 * batch) / gpcs;
        model.points.push_back({gpcs, batch, 1, Rps{1e3 * batch / latency}, Millis{latency}, {}});
      }
  }
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  plan::Service pipeline{.name = "p", .rate = Rps{200}, .slo = Millis{120}};
  pipeline.pipeline = {
      {{"fast", {{"x", "in"}}, {{"y", "mid"}}}, {"slow", {{"x", "mid"}}, {{"y", "out"}}, 2}}};
  problem.services = {pipeline};
  EXPECT_FALSE(forms::add_members(problem.services));
  return problem;
}

TEST(PlanPipelines, PromisesTheWholeAndSaysTheShares) {
  const plan::ServingProblem problem = two_models();
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_TRUE(made->plan) << made->refusals.front().detail;
  const plan::ServingPlan& plan = **made->plan;
  ASSERT_EQ(plan.services.size(), 3u);
  const plan::PlannedService& row = plan.services[0];
  EXPECT_TRUE(plan::differences(row, problem.services[0]).empty());  // as asked, unchanged
  ASSERT_TRUE(row.pipeline);
  EXPECT_GT(row.pipeline->steps[1].share, row.pipeline->steps[0].share);
  EXPECT_EQ(plan.services[2].slo, row.pipeline->steps[1].share);
  EXPECT_GT(row.predicted_latency.value, 0);
  EXPECT_LE(row.predicted_latency.value, 120);
  EXPECT_GE(plan.objective.gpus, plan.objective.lower_bound_gpus);
  EXPECT_GE(plan.objective.lower_bound_gpus, 1);
  EXPECT_THAT(plan.explanation.back(), testing::HasSubstr("pipeline p: of 120 ms"));
}

TEST(PlanPipelines, HoldsInTheSimulator) {
  const plan::ServingProblem problem = two_models();
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  ASSERT_TRUE(made && made->plan);
  sim::ServingOptions options;
  options.duration = Seconds{300};
  options.seed = 11;
  const auto report = simulate(problem, *made->plan, options);
  ASSERT_TRUE(report) << to_string(report.error());
  const auto& services = report->report.services;
  EXPECT_GE(services[0].slo_attainment, 0.99);
  EXPECT_NEAR(static_cast<double>(services[0].offered), 60'000, 1'000);
  EXPECT_NEAR(static_cast<double>(services[2].offered), 120'000, 2'000);  // two of each
}

TEST(PlanPipelines, SaysWhenNoSplitIsEnough) {
  plan::ServingProblem problem = two_models();
  problem.services[0].slo = Millis{3};
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_FALSE(made->plan);
  EXPECT_FALSE(made->refusals.empty());
}

// A service beside them that no plan can keep: that is the reason, found once.
TEST(PlanPipelines, SaysWhatHasNoPlanBesideThem) {
  plan::ServingProblem problem = two_models();
  problem.services.push_back(
      {.name = "hasty", .model = "slow", .rate = Rps{5}, .slo = Millis{0.1}});
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  ASSERT_FALSE(made->plan);
  const auto alone = [&] {
    plan::ServingProblem without = problem;
    without.services = {problem.services.back()};
    return make_plan(**find_planner("", "exact"), without, {})->refusals;
  }();
  ASSERT_FALSE(alone.empty());
  EXPECT_EQ(made->refusals.front(), alone.front());
}

TEST(PlanPipelines, JudgeRefusesAPoolTakenAway) {
  const plan::ServingProblem problem = two_models();
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  ASSERT_TRUE(made && made->plan);
  plan::ServingPlan plan = **made->plan;
  for (plan::PlannedGpu& gpu : plan.gpus)
    std::erase_if(gpu.instances, [](const auto& one) { return one.service == "fast"; });
  const auto verdict = verify::judge(problem, plan);
  ASSERT_FALSE(verdict);
  EXPECT_TRUE(std::ranges::any_of(verdict.error().violations, [](const plan::Reason& reason) {
    return reason.constraint == "slo" && reason.subject == "service p";
  }));
}

// The pipeline's steps at so many times the rate.
plan::ServingProblem at_times(double times) {
  plan::ServingProblem problem = two_models();
  for (plan::Service& service : problem.services) service.rate = service.rate * times;
  return problem;
}
std::vector<double> shares_in(const plan::ServingPlan& plan) {
  std::vector<double> shares;
  for (const plan::PipelineStep& step : plan.services[0].pipeline->steps)
    shares.push_back(step.share.value);
  return shares;
}

TEST(PlanPipelines, FollowTheirRateWithTheSharesThatTheyHave) {
  const auto made = make_plan(**find_planner("", "exact"), two_models(), {});
  ASSERT_TRUE(made && made->plan);
  plan::ServingPlan runs = **made->plan;
  for (const double times : {1.2, 1.6, 2.4, 1.5, 0.9}) {
    const auto again = make_plan_again(at_times(times), runs, {}, {});
    ASSERT_TRUE(again && again->made.plan) << times;
    const plan::ServingPlan& next = **again->made.plan;  // the judge has timed the whole way
    const auto from_nothing = make_plan(**find_planner("", "exact"), at_times(times), {});
    ASSERT_TRUE(from_nothing && from_nothing->plan);
    plan::ServingPlan anew = **from_nothing->plan;
    // Another split only where it saves a GPU, and with the same no more is moved than without.
    if (shares_in(next) == shares_in(runs)) {
      anew.gpus = planners::serving::named_as_matched(runs, std::move(anew.gpus));
      EXPECT_LE(again->changes.moved, plan::changes_between(runs, anew).moved) << times;
    } else {
      EXPECT_EQ(next.objective.gpus, anew.objective.gpus) << times;
    }
    runs = next;
  }
}

TEST(PlanPipelines, KeepNoSharesOfAnotherPromise) {
  const auto made = make_plan(**find_planner("", "exact"), two_models(), {});
  ASSERT_TRUE(made && made->plan);
  const PlanServices exact = [](const plan::ServingProblem& asked) {
    return (*find_planner("", "exact"))->plan(asked, {});
  };
  plan::ServingPlan kept;
  kept.services = {shares_kept((*made->plan)->services[0])};
  EXPECT_TRUE(plan_with_shares(two_models(), kept, exact, exact));
  plan::ServingProblem other = two_models();
  other.services[0].slo = Millis{60};
  EXPECT_FALSE(plan_with_shares(other, kept, exact, exact));
  other = two_models();
  other.services[0].pipeline->steps[1].fan_out = 3;
  EXPECT_FALSE(plan_with_shares(other, kept, exact, exact));
  kept.services[0].pipeline->steps[1].share = Millis{0.5};  // no batch of it is so fast
  EXPECT_FALSE(plan_with_shares(two_models(), kept, exact, exact));
}

}  // namespace
}  // namespace partita::decide
