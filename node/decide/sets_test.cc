// Sets of models that share instances: planned by one law, judged by playing them, simulated by a
// third code, written and read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/rng.h"
#include "decide/serving.h"
#include "forms/serving_forms.h"
#include "sim/serving.h"
#include "verify/judge.h"
#include "verify/set_instance.h"

namespace partita::decide {
namespace {

plan::Service set_of(int models, double exponent) {
  plan::Service service{.name = "rare", .model = "m", .rate = Rps{8}, .slo = Millis{1500}};
  service.models = plan::ModelSet{
      .memory = Mib{200}, .reserve = Mib{500}, .load = Millis{300}, .cold = Millis{2000}};
  for (int i = 1; i <= models; ++i)
    service.models->models.push_back({"r" + std::to_string(i), std::pow(i, -exponent)});
  return service;
}

plan::ServingProblem problem_of(plan::Service service) {
  plan::ServingProblem problem;
  problem.services.push_back(std::move(service));
  profile::ProfileTable table;
  table["m"] = {"m",
                {{1, 1, 1, Rps{100}, Millis{10}, {}},
                 {2, 1, 1, Rps{160}, Millis{6}, {}},
                 {3, 1, 1, Rps{200}, Millis{5}, {}},
                 {7, 1, 1, Rps{300}, Millis{3}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  return problem;
}

std::optional<plan::ServingPlan> planned_set(const plan::ServingProblem& problem) {
  const auto made = make_plan(**find_planner("", "exact"), problem, {});
  EXPECT_TRUE(made) << to_string(made.error());  // the judge has passed it, or there is none
  if (!made || !made->plan) return std::nullopt;
  return **made->plan;
}

int count_of(const plan::ServingPlan& plan) {
  int count = 0;
  for (const plan::PlannedGpu& gpu : plan.gpus) count += static_cast<int>(gpu.instances.size());
  return count;
}

TEST(Sets, AreKeptAtAllOfWhatIsPlanned) {
  Rng rng(11);
  int kept = 0;
  for (int i = 0; i < 6; ++i) {
    plan::Service service = set_of(static_cast<int>(1 + rng.below(600)), 1.3 * rng.uniform());
    service.rate = Rps{0.5 + 60 * rng.uniform()};
    service.slo = Millis{40 + 3000 * rng.uniform()};
    service.percentile = rng.below(2) == 0 ? 99 : 95;
    if (rng.below(2) == 0) service.models->cold = Millis{0};
    plan::ServingProblem problem = problem_of(service);
    auto plan = planned_set(problem);
    if (!plan) continue;
    ++kept;
    // 100 % of what its instances carry.
    plan::PlannedService& row = plan->services.front();
    problem.services.front().rate = row.rate = row.planned;
    row.predicted_latency = std::max(service.slo, service.models->cold);
    row.set_outlook->cold = row.predicted_latency;
    for (const plan::Reason& reason : verify::verify(problem, *plan))
      ADD_FAILURE() << i << ": " << to_string(*service.models) << ", " << to_string(reason);
    sim::ServingOptions options;
    options.duration = Seconds{3000};
    const auto report = sim::simulate(problem, *plan, options);
    ASSERT_TRUE(report);
    EXPECT_GE(report->services[0].slo_attainment, service.percentile / 100) << i;
    EXPECT_GE(report->services[0].models->cold_in_time, service.percentile / 100 - 0.01) << i;
    EXPECT_LE(static_cast<double>(report->services[0].models->cold) /
                  static_cast<double>(report->services[0].offered),
              0.005 + 1.05 * row.set_outlook->cold_share)
        << i;
  }
  EXPECT_GT(kept, 2);
}

TEST(Sets, TakeAnotherInstanceJustAboveWhatOneCarries) {
  plan::ServingProblem problem = problem_of(set_of(400, 0.9));
  const auto first = planned_set(problem);
  ASSERT_TRUE(first);
  problem.services[0].rate = first->services[0].planned;
  const auto same = planned_set(problem);
  ASSERT_TRUE(same);
  EXPECT_EQ(count_of(*same), count_of(*first));
  problem.services[0].rate = first->services[0].planned * (1 + 1e-6);
  const auto more = planned_set(problem);
  ASSERT_TRUE(more);
  EXPECT_GT(more->objective.gpcs + count_of(*more), first->objective.gpcs + count_of(*first));
}

// One GPU of each model is not enough for it; beside a service of one model.
TEST(Sets, AreSpreadOverGpusOfTwoModels) {
  plan::Service set = set_of(300, 0.9);
  set.rate = Rps{260};
  plan::ServingProblem problem = problem_of(set);
  problem.services.push_back({.name = "hot", .model = "m", .rate = Rps{150}, .slo = Millis{400}});
  problem.fleet[0].count = 1;
  plan::FleetEntry small{*hw::builtin_catalogue().find("A30-24GB"), {}, std::nullopt, 3};
  small.profiles["m"] = {"m",
                         {{1, 1, 1, Rps{80}, Millis{12.5}, {}},
                          {2, 1, 1, Rps{140}, Millis{7}, {}},
                          {4, 1, 1, Rps{200}, Millis{5}, {}}}};
  problem.fleet.push_back(small);
  const auto plan = planned_set(problem);
  ASSERT_TRUE(plan);
  std::set<std::string> models;
  int fewest = 1'000'000;
  for (const plan::PlannedGpu& gpu : plan->gpus)
    for (const plan::PlannedInstance& one : gpu.instances) {
      models.insert(gpu.model);
      if (one.service == "rare") fewest = std::min(fewest, one.held);
    }
  EXPECT_EQ(models.size(), 2u);
  EXPECT_EQ(plan->services[0].set_outlook->held, fewest);
  sim::ServingOptions options;
  options.duration = Seconds{600};
  const auto report = sim::simulate(problem, *plan, options);
  ASSERT_TRUE(report) << to_string(report.error());
  EXPECT_GE(report->services[0].slo_attainment, 0.99);
  EXPECT_GE(report->services[0].models->cold_in_time, 0.98);
  EXPECT_GE(report->services[1].slo_attainment, 0.99);
  EXPECT_LE(static_cast<double>(report->services[0].models->cold) /
                static_cast<double>(report->services[0].offered),
            0.01 + 1.05 * plan->services[0].set_outlook->cold_share);
}

TEST(Sets, TheJudgeRefusesMoreThanAnInstanceCarries) {
  plan::ServingProblem problem = problem_of(set_of(400, 0.9));
  auto plan = planned_set(problem);
  ASSERT_TRUE(plan);
  plan::PlannedService& row = plan->services[0];
  problem.services[0].rate = row.rate = row.planned * 1.5;
  for (plan::PlannedGpu& gpu : plan->gpus)
    for (plan::PlannedInstance& one : gpu.instances) one.throughput = one.throughput * 1.5;
  row.planned = row.planned * 1.5;
  EXPECT_FALSE(verify::verify(problem, *plan).empty());
}

TEST(Sets, TheJudgeRefusesWhatIsStatedTooWell) {
  plan::ServingProblem problem = problem_of(set_of(400, 0.9));
  const auto plan = planned_set(problem);
  ASSERT_TRUE(plan && verify::verify(problem, *plan).empty());
  const auto refused = [&](auto change) {
    plan::ServingPlan other = *plan;
    change(*other.services[0].set_outlook);
    return !verify::verify(problem, other).empty();
  };
  EXPECT_TRUE(refused([](plan::SetOutlook& o) { o.cold_share = o.cold_share / 2; }));
  EXPECT_TRUE(refused([](plan::SetOutlook& o) { o.cold = o.cold * 0.3; }));
  EXPECT_TRUE(refused([](plan::SetOutlook& o) { o.held += 1; }));
}

TEST(Sets, SayWhatDoesNotFit) {
  plan::Service large = set_of(3, 1);
  large.models->memory = Mib{90'000};
  const auto none = make_plan(**find_planner("", "exact"), problem_of(large), {});
  ASSERT_TRUE(none && !none->plan);
  EXPECT_EQ(none->refusals[0].constraint, "memory");
  plan::Service slow = set_of(3000, 0);
  slow.models->load = Millis{2500};
  const auto late = make_plan(**find_planner("", "exact"), problem_of(slow), {});
  ASSERT_TRUE(late && !late->plan);
  EXPECT_EQ(late->refusals[0].constraint, "slo");
  const auto other = make_plan(**find_planner("", "parvagpu"), problem_of(set_of(3, 1)), {});
  EXPECT_FALSE(other);
}

// With all models held nothing is cold: Erlang's M/D/1.
TEST(Sets, TheJudgeAgreesWithAFormulaWhereThereIsOne) {
  plan::Service service = set_of(50, 1);
  service.slo = Millis{30};
  const verify::SetVerdict held = verify::judge_set(service, {Rps{60}, Millis{10}, 50});
  EXPECT_EQ(held.cold, 0);
  const double l = 0.06, t = 20;  // a wait of more than 20 ms is late
  double until = 0, factorial = 1;
  for (int k = 0; k <= 2; ++k) {
    if (k > 0) factorial *= k;
    until += std::pow(l * (k * 10 - t), k) / factorial * std::exp(-l * (k * 10 - t));
  }
  EXPECT_NEAR(held.late, 1 - 0.4 * until, 0.004);
}

TEST(Sets, ArePlansThatReadBack) {
  const auto plan = planned_set(problem_of(set_of(40, 0.9)));
  ASSERT_TRUE(plan);
  const auto read = forms::parse_plan("p", forms::plan_json(*plan));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, *plan);
  EXPECT_EQ(read->services[0].models, plan->services[0].models);
  EXPECT_EQ(read->services[0].set_outlook, plan->services[0].set_outlook);
}

TEST(Sets, AreReadFromServicesFiles) {
  const std::string head =
      "services:\n- {name: rare, model: m, rate_rps: 2, slo_ms: 900, models: {memory_mib: 100, "
      "load_ms: 200, ";
  const auto fault = [&](const std::string& rest) {
    const auto read = forms::parse_services("f", head + rest, [](const std::string&) {
      return Result<std::string>("model,weight\na,2\nb,0.5\n");
    });
    return read ? std::string() : to_string(read.error());
  };
  const auto read =
      forms::parse_services("f", head + "cold_ms: 700, list: [a, {name: b, weight: 3}]}}\n");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->front().models,
            (plan::ModelSet{{{"a", 1}, {"b", 3}}, Mib{100}, Mib{0}, Millis{200}, Millis{700}}));
  EXPECT_EQ(fault("file: x.csv}}"), "");
  EXPECT_NE(fault("list: [a, a]}}").find("twice"), std::string::npos);
  EXPECT_NE(fault("list: []}}").find("0 of them"), std::string::npos);
  EXPECT_NE(fault("list: [rare]}}").find("already defined"), std::string::npos);
  EXPECT_NE(fault("}}").find("one of 'list' and 'file'"), std::string::npos);
  EXPECT_NE(fault("list: [a], file: x}}").find("one of"), std::string::npos);
  EXPECT_NE(fault("list: [{name: a, weight: 0}]}}").find("weight"), std::string::npos);
  EXPECT_NE(fault("list: [a]}, arrivals: {cv: 3}}").find("Poisson"), std::string::npos);
  EXPECT_NE(fault("list: [a]}, buckets: [8], lengths: [4]}\n").find("go together"),
            std::string::npos);
}

}  // namespace
}  // namespace partita::decide
