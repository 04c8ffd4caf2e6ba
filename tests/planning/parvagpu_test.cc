#include "planners/serving/parvagpu.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "base/source_text.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "profile/csv.h"
#include "profile/testing/published.h"

namespace partita::planners::serving {
namespace {

constexpr plan::SloRule kReleased{plan::SloRule::Kind::execution, 0.45};

const hw::GpuModel& model(const std::string& name) { return **hw::builtin_catalogue().get(name); }

plan::FleetEntry fleet_of(const hw::GpuModel& gpu, profile::ProfileTable profiles) {
  plan::FleetEntry entry;
  entry.gpu = gpu;
  entry.profiles = std::move(profiles);
  return entry;
}

plan::Service service_of(const std::string& name, double rate, double slo) {
  plan::Service service;
  service.name = service.model = name;
  service.rate = {rate};
  service.slo = {slo};
  return service;
}

plan::ServingProblem scenario(int number, int max_processes = 3) {
  const std::string name = "data/scenarios/s" + std::to_string(number) + ".yaml";
  plan::ServingProblem problem;
  problem.services = *forms::parse_services(name, source_text(name));
  problem.fleet.push_back(fleet_of(model("A100-80GB"), profile::published_profiles()));
  problem.rule = kReleased;
  problem.max_processes = max_processes;
  return problem;
}

// "GPU:SIZE@START" of every instance, with its service's name when that is not "m".
std::vector<std::string> places(const Outcome& outcome) {
  std::vector<std::string> found;
  for (const plan::PlannedGpu& gpu : outcome.plan->gpus)
    for (const plan::PlannedInstance& i : gpu.instances)
      found.push_back(fmt::format("{}:{}@{}{}", gpu.index, i.profile.substr(0, 2), i.start,
                                  i.service == "m" ? "" : " " + i.service));
  return found;
}

using Planning = Outcome (*)(const plan::ServingProblem&, const Options&);
using Counts = std::vector<std::pair<int, int>>;  // GPUs, GPCs per scenario

Counts counts_of(Planning planning, int max_processes) {
  Counts counts;
  for (int number = 1; number <= 6; ++number) {
    const auto outcome = planning(scenario(number, max_processes), {});
    counts.emplace_back(outcome.plan->objective.gpus, outcome.plan->objective.gpcs);
  }
  return counts;
}

// Everything that a plan must keep, recomputed here from the problem and hw::conflicts().
void expect_right(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  const plan::FleetEntry& entry = problem.fleet.front();
  std::map<std::string, double> carried;
  std::map<std::string, int> replicas;
  int gpcs = 0;
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    EXPECT_FALSE(gpu.instances.empty());
    std::vector<hw::PlacedProfile> placed;
    for (const plan::PlannedInstance& instance : gpu.instances) {
      placed.push_back({entry.gpu.profile_index(instance.profile), instance.start});
      const auto& shape = entry.gpu.profiles.at(static_cast<std::size_t>(placed.back().profile));
      const auto service =
          std::ranges::find(problem.services, instance.service, &plan::Service::name);
      ASSERT_NE(service, problem.services.end());
      const auto* point = profile::find_point(entry.profiles.at(service->model), shape.gpcs,
                                              instance.batch, instance.processes);
      ASSERT_NE(point, nullptr);
      EXPECT_LE(instance.processes, problem.max_processes);
      EXPECT_EQ(instance.latency, point->latency);
      EXPECT_LE(instance.throughput, point->throughput);
      if (problem.rule.kind == plan::SloRule::Kind::execution) {
        EXPECT_LT(point->latency, problem.rule.fraction * service->slo);
      }
      carried[service->name] += instance.throughput.value;
      ++replicas[service->name];
      gpcs += shape.gpcs;
    }
    EXPECT_TRUE(hw::conflicts(entry.gpu, placed).empty()) << gpu.index;
  }
  EXPECT_EQ(plan.objective.gpus, static_cast<int>(plan.gpus.size()));
  EXPECT_EQ(plan.objective.gpcs, gpcs);
  ASSERT_EQ(plan.services.size(), problem.services.size());
  for (std::size_t s = 0; s < plan.services.size(); ++s) {
    const plan::Service& service = problem.services[s];
    EXPECT_GE(carried[service.name], service.rate.value * (1 - 1e-9)) << service.name;
    EXPECT_GE(replicas[service.name], service.min_replicas) << service.name;
    EXPECT_NEAR(plan.services[s].planned.value, carried[service.name], 1e-6);
    EXPECT_LE(plan.services[s].predicted_latency, service.slo);
  }
}

// Counts of the released code on its own data, from an independent checker of its output.
TEST(ParvaGpu, UsesAsManyGpusAndGpcsAsTheReleasedCode) {
  EXPECT_EQ(counts_of(plan_parvagpu, 3),
            (Counts{{2, 10}, {3, 20}, {5, 33}, {7, 48}, {13, 89}, {17, 114}}));
  EXPECT_EQ(counts_of(plan_parvagpu_single, 3),
            (Counts{{2, 10}, {3, 20}, {5, 35}, {7, 49}, {14, 96}, {18, 121}}));
  EXPECT_EQ(counts_of(plan_parvagpu_unoptimized, 3),
            (Counts{{2, 10}, {3, 20}, {8, 30}, {11, 44}, {22, 82}, {29, 106}}));
  EXPECT_EQ(counts_of(plan_parvagpu, 4),
            (Counts{{2, 10}, {3, 20}, {5, 33}, {7, 48}, {13, 89}, {16, 112}}));
  EXPECT_EQ(counts_of(plan_parvagpu_unoptimized, 5),
            (Counts{{2, 10}, {3, 20}, {8, 30}, {11, 44}, {20, 82}, {26, 106}}));
}

TEST(ParvaGpu, PlansOfThePublishedScenariosAreRight) {
  for (int number = 1; number <= 6; ++number)
    for (const Planning planning :
         {plan_parvagpu, plan_parvagpu_single, plan_parvagpu_unoptimized}) {
      const auto problem = scenario(number);
      const auto outcome = planning(problem, {});
      ASSERT_TRUE(outcome.plan);
      expect_right(problem, *outcome.plan);
    }
}

// The paper prints SLOs in whole milliseconds, its code cuts the fraction off (418.5: 419 and 418).
// Only batch and processes of resnet50 differ, in S5, where 32 ms is below 0.45 x 72 ms but not
// 0.45 x 71 ms.
TEST(ParvaGpu, TruncatedSlosGiveTheSameLayouts) {
  const std::string file = "data/published/parvagpu/scenarios.csv";
  const profile::Csv published = *profile::parse_csv(file, source_text(file));
  std::map<std::pair<int, std::string>, std::pair<double, double>> rate_and_slo;
  for (const profile::CsvRow& row : published.rows)
    rate_and_slo[{std::stoi(row.cells[0]), row.cells[1]}] = {std::stod(row.cells[2]),
                                                             std::stod(row.cells[3])};
  int differing = 0;
  std::size_t services = 0;
  for (int number = 1; number <= 6; ++number) {
    const plan::ServingProblem rounded = scenario(number);
    plan::ServingProblem truncated = rounded;
    for (plan::Service& service : truncated.services) {
      const auto& [rate, slo] = rate_and_slo.at({number, service.name});
      EXPECT_EQ(service.rate.value, rate) << service.name;
      EXPECT_EQ(service.slo.value, std::round(slo)) << service.name;
      differing += service.slo.value != std::floor(slo);
      service.slo.value = std::floor(slo);
    }
    services += rounded.services.size();
    EXPECT_EQ(places(plan_parvagpu(truncated, {})), places(plan_parvagpu(rounded, {})));
  }
  EXPECT_EQ(services, rate_and_slo.size());
  EXPECT_GT(differing, 0);
}

// One model whose total throughput per size is given, at batch 8 and 10 ms.
plan::ServingProblem problem_of(std::map<int, double> throughput, double rate) {
  profile::WorkloadProfile profile{"m", {}};
  for (const auto& [gpcs, total] : throughput)
    profile.points.push_back({gpcs, 8, 1, Rps{total}, Millis{10}, {}});
  plan::ServingProblem problem;
  problem.services.push_back(service_of("m", rate, 100));
  problem.fleet.push_back(fleet_of(model("A100-80GB"), {{"m", profile}}));
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  return problem;
}

const std::map<int, double> kBestIs3g = {{1, 100}, {2, 210}, {3, 330}, {4, 400}, {7, 600}};

TEST(ParvaGpu, HandWorkedPlans) {
  using Places = std::vector<std::string>;
  // 500 = 330 (the best ratio) + 170, which the 2g carries; five GPCs are not fragmented.
  EXPECT_EQ(places(plan_parvagpu(problem_of(kBestIs3g, 500), {})), (Places{"0:2g@0", "0:3g@4"}));
  // A lone 3g is dissolved: 330 = 210 (2g) + 100 (1g) + 20 (1g).
  EXPECT_EQ(places(plan_parvagpu_unoptimized(problem_of(kBestIs3g, 330), {})), (Places{"0:3g@4"}));
  EXPECT_EQ(places(plan_parvagpu(problem_of(kBestIs3g, 330), {})),
            (Places{"0:2g@0", "0:1g@2", "0:1g@3"}));
  // Three 3g on three GPUs, from the last: 2g 1g 1g each, less the surplus of 80 that is carried
  // over. 330 -> 2g 1g 1g (surplus 80); 250 -> 2g 1g (surplus 60); the first GPU has seven GPCs by
  // then.
  EXPECT_EQ(places(plan_parvagpu_unoptimized(problem_of(kBestIs3g, 990), {})),
            (Places{"0:3g@4", "1:3g@4", "2:3g@4"}));
  EXPECT_EQ(places(plan_parvagpu(problem_of(kBestIs3g, 990), {})),
            (Places{"0:2g@0", "0:1g@2", "0:1g@3", "0:3g@4", "1:2g@0", "1:1g@2"}));
}

// Rates that are whole multiples, but for the last bit: no segment too many, none too few.
TEST(ParvaGpu, WholeMultiplesNeedNoSpareSegment) {
  for (const double each : {0.1, 1.0 / 3, 0.7, 17.3, 1e4 / 7})
    for (int count = 1; count <= 60; ++count)
      for (const double towards : {0.0, count * each, 1e9}) {
        const auto problem = problem_of({{1, each}}, std::nextafter(count * each, towards));
        for (const Planning planning : {plan_parvagpu, plan_parvagpu_unoptimized})
          EXPECT_EQ(planning(problem, {}).plan->objective.gpcs, count) << each << " x " << count;
      }
}

// The rest of this rate comes out above the segment's throughput: it must neither crash nor go
// missing.
TEST(ParvaGpu, RestsThatRoundUpKeepTheirSegment) {
  const double each = 1604.294306624883, rate = 192515.31679498593;
  ASSERT_GT(rate - std::floor(rate / each) * each, each);
  const auto problem = problem_of({{1, each}}, rate);
  const Outcome outcome = plan_parvagpu(problem, {});
  EXPECT_EQ(outcome.plan->objective.gpcs, 120);
  expect_right(problem, *outcome.plan);
}

TEST(ParvaGpu, ServicesWithoutSmallSegmentsKeepTheirs) {
  const auto problem = problem_of({{4, 400}}, 700);
  EXPECT_EQ(places(plan_parvagpu(problem, {})), (std::vector<std::string>{"0:4g@0", "1:4g@0"}));
  expect_right(problem, *plan_parvagpu(problem, {}).plan);
}

TEST(ParvaGpu, MinReplicasAddsTheSmallestSegments) {
  auto problem = problem_of(kBestIs3g, 50);
  problem.services[0].min_replicas = 3;
  for (const Planning planning : {plan_parvagpu, plan_parvagpu_unoptimized})
    EXPECT_EQ(places(planning(problem, {})),
              (std::vector<std::string>{"0:1g@0", "0:1g@1", "0:1g@2"}));
}

TEST(ParvaGpu, RefusesWhatItCannotKeepAndSaysBy) {
  auto problem = problem_of(kBestIs3g, 100);
  problem.services[0].slo = {16};  // 10 ms is not below 8 ms
  auto outcome = plan_parvagpu(problem, {});
  EXPECT_FALSE(outcome.plan);
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].constraint, "slo");
  EXPECT_EQ(outcome.refusals[0].subject, "service m");
  EXPECT_EQ(outcome.refusals[0].have, 10);
  EXPECT_EQ(outcome.refusals[0].need, 8);

  problem = problem_of(kBestIs3g, 100);
  problem.services[0].min_replicas = 2;
  problem.services[0].spread = true;
  outcome = plan_parvagpu(problem, {});
  ASSERT_FALSE(outcome.plan);
  EXPECT_FALSE(plan::proven(outcome.refusals)) << "a planner that looks at it finds one";
  EXPECT_EQ(outcome.refusals[0].subject, "service m on gpu 0");
  EXPECT_EQ(outcome.refusals[0].have, 2);

  problem = problem_of(kBestIs3g, 100);
  problem.services.push_back(problem.services[0]);
  problem.services[1].name = "t";
  problem.services[1].avoid = {"m"};
  outcome = plan_parvagpu(problem, {});
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].subject, "services t and m on gpu 0");

  problem = problem_of(kBestIs3g, 6000);
  problem.fleet[0].count = 2;
  outcome = plan_parvagpu(problem, {});
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].constraint, "not_found");
  EXPECT_EQ(outcome.refusals[0].have, 2);
  EXPECT_GT(outcome.refusals[0].need, 2);

  outcome = plan_parvagpu(problem_of(kBestIs3g, 1e12), {});
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].constraint, "limit");
  EXPECT_FALSE(plan_parvagpu({}, {}).refusals.empty());
}

// A random model: throughput grows with size and batch, noisily, and some points are missing.
profile::WorkloadProfile random_profile(const std::string& name, const hw::GpuModel& gpu,
                                        Rng& rng) {
  profile::WorkloadProfile profile{name, {}};
  const double scale = 20 + 2000 * rng.uniform() * rng.uniform();
  for (const int shape : hw::plain_profiles(gpu))
    for (int processes = 1; processes <= 3; ++processes)
      for (int batch = 1; batch <= 32; batch *= 4) {
        if (rng.uniform() < 0.3) continue;
        const int gpcs = gpu.profiles[static_cast<std::size_t>(shape)].gpcs;
        const double total = scale * std::pow(gpcs, 0.6 + 0.6 * rng.uniform()) *
                             std::pow(batch, 0.3) * std::sqrt(processes);
        profile.points.push_back(
            {gpcs, batch, processes, Rps{total}, Millis{1000.0 * batch * processes / total}, {}});
      }
  return profile;
}

RC_GTEST_PROP(ParvaGpu, RandomServicesAreAllCoveredOnLegalPlacements, (const std::uint64_t seed)) {
  Rng rng(seed);
  const auto& gpus = hw::builtin_catalogue().gpus;
  plan::ServingProblem problem;
  problem.fleet.push_back(fleet_of(gpus[rng.below(gpus.size())], {}));
  plan::FleetEntry& entry = problem.fleet.front();
  problem.rule = kReleased;
  std::vector<std::string> infeasible;
  for (std::uint64_t k = 0, count = 1 + rng.below(8); k < count; ++k) {
    const std::string name(1, static_cast<char>('a' + k));
    const auto& profile = entry.profiles[name] = random_profile(name, entry.gpu, rng);
    plan::Service service = service_of(name, 1 + 9000 * rng.uniform(), 5 + 500 * rng.uniform());
    service.min_replicas = 1 + static_cast<int>(rng.below(5));
    const auto feasible = [&](const profile::ProfilePoint& point) {
      return point.latency < problem.rule.fraction * service.slo;
    };
    if (std::ranges::none_of(profile.points, feasible)) infeasible.push_back("service " + name);
    problem.services.push_back(service);
  }
  for (const Planning planning : {plan_parvagpu, plan_parvagpu_single, plan_parvagpu_unoptimized}) {
    const Outcome outcome = planning(problem, {});
    RC_ASSERT(outcome.plan.has_value() == outcome.refusals.empty());
    if (planning == plan_parvagpu_single) problem.max_processes = 1;
    if (outcome.plan) {
      expect_right(problem, *outcome.plan);
      RC_ASSERT(!::testing::Test::HasFailure());
    }
    problem.max_processes = 3;
    if (planning == plan_parvagpu_single) continue;
    std::vector<std::string> refused;
    for (const plan::Reason& reason : outcome.refusals) refused.push_back(reason.subject);
    RC_ASSERT(refused == infeasible);
  }
}

TEST(ParvaGpu, QueueingRulePredictsPercentilesWithinTheSlo) {
  auto problem = problem_of(kBestIs3g, 700);
  problem.rule = {};
  problem.services[0].slo = {60};
  const auto outcome = plan_parvagpu(problem, {});
  ASSERT_TRUE(outcome.plan);
  expect_right(problem, *outcome.plan);
  EXPECT_GT(outcome.plan->services[0].predicted_latency, Millis{10});  // more than the execution
}

}  // namespace
}  // namespace partita::planners::serving
