// The cores of the baselines on cases worked out by hand, and their constants against the published
// measurements that they are means of.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/source_text.h"
#include "hw/catalogue.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"
#include "planners/serving/gpulet.h"
#include "planners/serving/gslice.h"
#include "planners/serving/igniter.h"
#include "planners/serving/mig_serving.h"
#include "planners/serving/mig_serving_configs.h"
#include "planners/serving/paris_elsa.h"
#include "profile/csv.h"
#include "verify/serving.h"

namespace partita::planners::serving {
namespace {

std::vector<std::vector<std::string>> rows_of(const std::string& name) {
  const std::string file = "data/published/" + name;
  std::vector<std::vector<std::string>> rows;
  const auto table = profile::parse_csv(file, source_text(file));
  for (const auto& one : table->rows) rows.push_back(one.cells);
  return rows;
}

plan::Service asking(const std::string& name, double rate, double slo) {
  plan::Service service;
  service.name = name;
  service.model = "m";
  service.rate = Rps{rate};
  service.slo = Millis{slo};
  return service;
}

// Batch 4 and 16 on every size: `per_gpc` req/s per GPC at batch 16, half of it at batch 4.
plan::ServingProblem linear(double per_gpc, std::vector<plan::Service> services) {
  profile::WorkloadProfile workload{"m", {}};
  for (const int gpcs : {1, 2, 3, 4, 7})
    for (const int batch : {4, 16}) {
      const double rate = gpcs * per_gpc * (batch == 16 ? 1 : 0.5);
      workload.points.push_back({gpcs, batch, 1, Rps{rate}, Millis{1000 * batch / rate}, {}});
    }
  plan::ServingProblem problem;
  problem.services = std::move(services);
  plan::FleetEntry entry;
  entry.gpu = **hw::builtin_catalogue().get("A100-80GB");
  entry.profiles = {{"m", workload}};
  problem.fleet.push_back(std::move(entry));
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  return problem;
}

// "GPU:SERVICE SIZE bBATCH" of every instance; the size is a profile's or a share.
std::vector<std::string> layout_of(const Outcome& outcome) {
  std::vector<std::string> found;
  for (const plan::PlannedGpu& gpu : outcome.plan->gpus)
    for (const plan::PlannedInstance& i : gpu.instances)
      found.push_back(fmt::format(
          "{}:{} {} b{}", gpu.index, i.service,
          i.share_percent > 0 ? fmt::format("{}%", i.share_percent) : i.profile.substr(0, 2),
          i.batch));
  return found;
}
using Layouts = std::vector<std::string>;

// ---- gpulet ----

TEST(GpuletCore, InterferenceIsThePublishedModelAtMeanUtilisations) {
  std::map<int, std::pair<double, double>> sums;  // batch -> memory, L2
  std::map<int, int> count;
  for (const auto& cells : rows_of("gpulet/a100-utilisation.csv")) {
    auto& [memory, l2] = sums[std::stoi(cells[1])];
    memory += std::stod(cells[2]);
    l2 += std::stod(cells[3]);
    ++count[std::stoi(cells[1])];
  }
  ASSERT_EQ(sums.size(), 7u);
  for (const auto& [batch, sum] : sums)
    for (const auto& [other, its] : sums) {
      ASSERT_EQ(count[batch], 10);
      const double seconds = 0.000291343 * sum.second / 10 * 80 / 50 +
                             0.000364121 * sum.first / 10 * 80 / 50 +
                             0.000101413 * its.second / 10 * 20 / 50 +
                             8.24321e-05 * its.first / 10 * 20 / 50 + 0.00309856;
      EXPECT_NEAR(gpulet_interference({batch, 80}, {other, 20}).value, 1000 * seconds, 0.001);
    }
  EXPECT_EQ(gpulet_interference({256, 50}, {3, 50}), gpulet_interference({64, 50}, {2, 50}));
}

// 100 req/s per GPC: 20 % carry 140, 40 % 280, 80 % 560, all 700. All steps are equally steep but
// for rounding, so a small rate takes 20 %.
TEST(GpuletCore, TheSecondHalfTakesAllThatIsLeft) {
  auto problem = linear(100, {asking("a", 100, 1000), asking("b", 130, 1000)});
  EXPECT_EQ(layout_of(plan_gpulet(problem, {})), (Layouts{"0:a 20% b16", "0:b 80% b16"}));
  // In ascending rate x SLO: b (130 x 100) goes first. 16 of a batch take 114 ms on 20 %: more than
  // 50 ms; batch 4 takes 57: 20 % is passed over, and 28.6 ms are in time on 40 %.
  problem.services[1].slo = Millis{100};
  problem.services[0].rate = Rps{130};
  EXPECT_EQ(layout_of(plan_gpulet(problem, {})), (Layouts{"0:b 40% b4", "0:a 60% b16"}));
}

// ---- iGniter ----

TEST(IgniterCore, ConstantsAreThoseOfThePublishedMeasurements) {
  double slowdown = 0, kernels = 0;
  const auto models = rows_of("igniter/v100-models.csv");
  for (const auto& cells : models) {
    kernels += std::stod(cells[1]) / 4;
    slowdown += (std::stod(cells[3]) * std::stod(cells[4]) / 1530 / std::stod(cells[2]) - 1) / 4;
  }
  ASSERT_EQ(models.size(), 4u);
  std::vector<double> idle;
  for (const auto& cells : rows_of("igniter/v100-idle.csv"))
    idle.push_back(std::stod(cells[1]) * std::stod(cells[2]) / 1530);
  ASSERT_EQ(idle.size(), 5u);
  // Least squares over 2 to 5 workloads of what is idle beyond one alone.
  double mean = 0, slope = 0;
  for (std::size_t n = 2; n <= 5; ++n) mean += (idle[n - 1] - idle[0]) / 4;
  for (std::size_t n = 2; n <= 5; ++n)
    slope += (static_cast<double>(n) - 3.5) * (idle[n - 1] - idle[0] - mean) / 5;
  const auto delay = [&](int n) { return kernels * (mean + slope * (n - 3.5)); };
  EXPECT_EQ(igniter_latency({10}, 0, 0), Millis{10});
  EXPECT_NEAR(igniter_latency({10}, 1, 50).value, 10 * (1 + slowdown) + delay(2), 1e-4);
  EXPECT_NEAR(igniter_latency({10}, 3, 25).value, 10 * (1 + slowdown / 2) + delay(4), 1e-4);
}

// 100 req/s per GPC, 50 ms: a at 100 req/s collects 5 in 50 ms, so batch 4 or 16. Batch 4 takes
// 8000/(7 x share) ms: below 50 from 22.9 % on, so 25 %; batch 16 needs half of that time per
// request: 16000/(7 x share) < 50 from 45.7 % on. Two of 25 % beside each other: 45.71 ms x (1 +
// 0.00077 x 25) + 0.03 = 46.6 ms, still in time.
TEST(IgniterCore, LeastSharesStandBesideEachOther) {
  const auto problem = linear(100, {asking("a", 50, 100), asking("b", 60, 100)});
  EXPECT_EQ(layout_of(plan_igniter(problem, {})), (Layouts{"0:a 25% b4", "0:b 25% b4"}));
}

// Batch 4 carries 87.5 req/s on 25 % just so: a neighbour's interference is too much, and both need
// a step more.
TEST(IgniterCore, InterferenceRaisesShares) {
  const auto problem = linear(100, {asking("a", 87.5, 100), asking("b", 87.5, 100)});
  EXPECT_EQ(layout_of(plan_igniter(problem, {})), (Layouts{"0:a 27.5% b4", "0:b 27.5% b4"}));
}

TEST(IgniterCore, MoreThanAGpuIsRefused) {
  const Outcome outcome = plan_igniter(linear(100, {asking("a", 701, 1000)}), {});
  ASSERT_EQ(outcome.refusals.size(), 1u);
  EXPECT_EQ(outcome.refusals[0].constraint, "rate");
  EXPECT_DOUBLE_EQ(outcome.refusals[0].have, 700);
}

// ---- GSLICE ----

// 140 req/s need 20 %; 400 need 57.1, so 60 %; 250 need 35.7, so 40 %, which the first GPU has not.
TEST(GsliceCore, SharesComeToRestAtTheSmallestThatCarries) {
  const auto problem = linear(100, {asking("a", 140, 1000), asking("b", 400, 1000),
                                    asking("c", 250, 1000), asking("d", 105, 1000)});
  EXPECT_EQ(layout_of(plan_gslice(problem, {})),
            (Layouts{"0:a 20% b16", "0:b 60% b16", "0:d 15% b16", "1:c 40% b16"}));
  const Outcome outcome = plan_gslice(linear(100, {asking("a", 701, 1000)}), {});
  EXPECT_EQ(outcome.refusals[0].constraint, "rate");
}

// ---- PARIS and ELSA ----

TEST(ParisCore, QueriesAreLogNormalAroundEight) {
  const std::vector<double> share = paris_queries(64);
  EXPECT_NEAR(std::accumulate(share.begin(), share.end(), 0.0), 1, 1e-12);
  // Density ratio of 16 to 8 requests: exp(-(ln 2 / 0.9)^2 / 2) / 2.
  EXPECT_NEAR(share[15] / share[7], std::exp(-0.5 * std::pow(std::log(2) / 0.9, 2)) / 2, 1e-12);
  EXPECT_EQ(paris_queries(1), std::vector<double>{1});
}

// The knee of every size is batch 16 (batch 4 has half of its throughput), so all queries are for
// the smallest size in time: 1g runs 16 in 160 ms.
TEST(ParisCore, AllQueriesGoToTheSmallestSizeWithTheLargestKnee) {
  const auto problem = linear(100, {asking("a", 300, 1000)});
  const std::vector<double> share = paris_queries(16);
  double mean = 0, busy = 0;
  for (int b = 1; b <= 16; ++b) {
    mean += b * share[static_cast<std::size_t>(b - 1)];
    busy += share[static_cast<std::size_t>(b - 1)] * (b <= 4 ? 80 : 160) / 1000.0;
  }
  const Outcome outcome = plan_paris_elsa(problem, {});
  EXPECT_EQ(outcome.plan->gpus[0].instances.size(),
            static_cast<std::size_t>(std::ceil(300 / mean * busy)));
  for (const auto& instance : outcome.plan->gpus[0].instances)
    EXPECT_EQ(instance.profile, "1g.10gb");
}

// ---- MIG-serving ----

// The highest score over every assignment of at most two services to every layout.
double brute_force_score(const ConfigSpace& space, const hw::PackingRules& rules,
                         const Missing& missing, const std::vector<std::vector<double>>& utility) {
  double best = 0;
  for (std::size_t f = 0; f < rules.fills.size(); ++f) {
    const std::size_t n = rules.fills[f].layout.size();
    for (std::size_t a = 0; a < missing.size(); ++a)
      for (std::size_t b = 0; b < missing.size(); ++b)
        for (std::size_t mask = 0; mask < (std::size_t{1} << n); ++mask) {
          double score = 0;
          for (std::size_t i = 0; i < n; ++i) {
            const std::size_t s = mask >> i & 1 ? b : a;
            const auto k = static_cast<std::size_t>(space.size_at(static_cast<int>(f), i));
            score += std::max(0.0, missing[s]) * utility[s][k];
          }
          best = std::max(best, score);
        }
  }
  return best;
}

plan::ServingProblem random_problem(Rng& rng, int services) {
  plan::ServingProblem problem = linear(1, {});
  auto& profiles = problem.fleet.front().profiles;
  profiles.clear();
  for (int s = 0; s < services; ++s) {
    plan::Service service = asking(fmt::format("s{}", s), 20 + 400 * rng.uniform(), 1000);
    service.model = service.name;
    profile::WorkloadProfile workload{service.name, {}};
    for (const int gpcs : {1, 2, 3, 4, 7})
      workload.points.push_back(
          {gpcs, 8, 1, Rps{gpcs * (20 + 20 * rng.uniform())}, Millis{10}, {}});
    profiles.emplace(service.name, workload);
    problem.services.push_back(service);
  }
  return problem;
}

TEST(MigServingCore, TheGreedyTakesTheConfigurationOfTheHighestScore) {
  Rng rng(7);
  for (int round = 0; round < 20; ++round) {
    const plan::ServingProblem problem = random_problem(rng, 4);
    const plan::FleetEntry& entry = problem.fleet.front();
    const ConfigSpace space(problem);
    const auto rules = hw::packing_rules(entry.gpu, hw::plain_profiles(entry.gpu));
    std::vector<std::vector<double>> utility;
    Missing missing;
    for (const plan::Service& service : problem.services) {
      utility.emplace_back();
      for (const auto& point : entry.profiles.at(service.model).points)
        utility.back().push_back(point.throughput / service.rate);
      missing.push_back(rng.uniform());
    }
    Missing after = missing;
    space.take(after, space.best_score(missing));
    double score = 0;
    for (std::size_t s = 0; s < missing.size(); ++s) score += missing[s] * (missing[s] - after[s]);
    const double best = brute_force_score(space, rules, missing, utility);
    EXPECT_NEAR(score, best, 1e-9 * best);
  }
}

// Never more GPUs than the first phase, never fewer than the optimum, and better somewhere.
TEST(MigServingCore, TheSecondPhaseLiesBetweenTheGreedyAndTheOptimum) {
  Rng rng(11);
  int better = 0;
  for (int round = 0; round < 12; ++round) {
    plan::ServingProblem problem = random_problem(rng, 3 + round % 4);
    const Options options{.node_budget = 500, .cpu_ms = {}, .progress = {}};
    const Outcome greedy = plan_mig_serving_greedy(problem, options);
    const Outcome both = plan_mig_serving(problem, options);
    EXPECT_TRUE(verify::verify(problem, *greedy.plan).empty());
    EXPECT_TRUE(verify::verify(problem, *both.plan).empty());
    EXPECT_LE(both.plan->objective.gpus, greedy.plan->objective.gpus);
    EXPECT_EQ(*both.plan, *plan_mig_serving(problem, options).plan);
    better += both.plan->objective.gpus < greedy.plan->objective.gpus;
    problem.max_processes = 1;
    EXPECT_GE(both.plan->objective.gpus, plan_exact(problem, {}).plan->objective.lower_bound_gpus);
  }
  EXPECT_GT(better, 0);
}

}  // namespace
}  // namespace partita::planners::serving
