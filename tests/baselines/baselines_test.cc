// The baselines of other systems on the published scenarios: what they need, and that their plans
// pass the judge. gpulet also on what its own code was measured with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/source_text.h"
#include "decide/serving.h"
#include "forms/serving_forms.h"
#include "hw/catalogue.h"
#include "planners/serving/gpulet.h"
#include "planners/serving/planner.h"
#include "profile/csv.h"
#include "profile/testing/published.h"
#include "verify/serving.h"

namespace partita::planners::serving {
namespace {

plan::ServingProblem published(int number, double fraction, int copies = 1) {
  const std::string name = fmt::format("data/scenarios/s{}.yaml", number);
  plan::ServingProblem problem;
  const auto services = forms::parse_services(name, source_text(name));
  for (const plan::Service& service : *services)
    for (int k = 0; k < copies; ++k) {
      problem.services.push_back(service);
      if (k > 0) problem.services.back().name += fmt::format("-{}", k);
    }
  plan::FleetEntry entry;
  entry.gpu = **hw::builtin_catalogue().get("A100-80GB");
  entry.profiles = profile::published_profiles();
  problem.fleet.push_back(std::move(entry));
  problem.rule = {plan::SloRule::Kind::execution, fraction};
  return problem;
}

// "3/21", or the first refusal's constraint.
std::string gpus_and_gpcs(const std::string& planner, const plan::ServingProblem& problem) {
  const auto found = decide::find_planner("", planner);
  const Outcome outcome = (*found)->plan(problem, {});
  EXPECT_EQ(outcome.plan.has_value(), outcome.refusals.empty());
  if (!outcome.plan) return outcome.refusals.front().constraint;
  EXPECT_EQ(outcome.plan->planner, planner);
  for (const plan::Reason& reason : verify::verify(problem, *outcome.plan))
    ADD_FAILURE() << planner << ": " << plan::to_string(reason);
  return fmt::format("{}/{}", outcome.plan->objective.gpus, outcome.plan->objective.gpcs);
}

std::vector<std::string> row(const std::string& planner, double fraction) {
  std::vector<std::string> cells;
  for (int number = 1; number <= 6; ++number)
    cells.push_back(gpus_and_gpcs(planner, published(number, fraction)));
  return cells;
}

using Row = std::vector<std::string>;

// The same numbers stand in docs/results/serving.md, where they are compared with the paper's.
TEST(Baselines, NeedTheseGpusOnThePublishedScenarios) {
  EXPECT_EQ(row("mig-serving", 0.5), (Row{"3/21", "6/42", "6/42", "8/56", "14/98", "17/119"}));
  EXPECT_EQ(row("paris-elsa", 0.5), (Row{"7/43", "11/69", "15/102", "17/112", "27/180", "35/232"}));
  EXPECT_EQ(row("gpulet", 0.5), (Row{"3/21", "6/42", "7/49", "10/70", "17/119", "24/168"}));
  EXPECT_EQ(row("igniter", 0.5), (Row{"2/14", "3/21", "5/35", "9/63", "rate", "rate"}));
  EXPECT_EQ(row("gslice", 0.5), (Row{"2/14", "3/21", "5/35", "9/63", "rate", "rate"}));
}

// An implementation of our own in another language, written before this one, gave these.
TEST(Baselines, TheGreedyNeedsAsManyAsAnOlderImplementation) {
  EXPECT_EQ(row("mig-serving-greedy", 0.45),
            (Row{"6/42", "10/70", "10/70", "12/84", "18/126", "22/154"}));
  for (int copies = 1; copies <= 10; ++copies)
    EXPECT_EQ(gpus_and_gpcs("mig-serving-greedy", published(5, 0.45, copies)),
              fmt::format("{}/{}", 18 * copies, 126 * copies));
}

TEST(Baselines, PlanByTheirOwnRuleAndRefuseOthers) {
  int with_rule = 0;
  for (const Planner& planner : planners()) {
    if (!planner.own_rule) continue;
    ++with_rule;
    plan::ServingProblem problem = published(1, 0.5);
    problem.rule = *planner.own_rule;
    EXPECT_NE(gpus_and_gpcs(planner.name, problem), "slo_rule");
    problem.rule = {};
    const Outcome outcome = planner.plan(problem, {});
    ASSERT_EQ(outcome.refusals.size(), 1u) << planner.name;
    EXPECT_EQ(outcome.refusals[0].constraint, "slo_rule");
    EXPECT_FALSE(plan::proven(outcome.refusals)) << planner.name;
    EXPECT_NE(outcome.refusals[0].detail.find(plan::to_string(*planner.own_rule)),
              std::string::npos);
    EXPECT_FALSE(planner.plan({}, {}).refusals.empty());
  }
  EXPECT_EQ(with_rule, 6);
}

TEST(Baselines, RefuseWhatTheyKnowNothingOf) {
  for (const Planner& planner : planners()) {
    if (!planner.own_rule) continue;
    plan::ServingProblem problem = published(1, 0.5);
    // Such plans may exist: it has not looked.
    const auto refuses = [&](const std::string& wish) {
      EXPECT_EQ(gpus_and_gpcs(planner.name, problem), "not_found") << planner.name;
      const Outcome outcome = planner.plan(problem, {});
      ASSERT_FALSE(outcome.refusals.empty()) << planner.name;
      EXPECT_NE(outcome.refusals[0].detail.find("knows nothing of " + wish), std::string::npos)
          << planner.name << ": " << outcome.refusals[0].detail;
    };
    problem.services[0].min_replicas = 50;
    refuses("min_replicas");
    problem = published(1, 0.5);
    problem.fleet[0].count = 1;
    EXPECT_EQ(gpus_and_gpcs(planner.name, problem), "not_found") << planner.name;
    problem = published(1, 0.5);
    problem.services[0].slo = Millis{1};
    EXPECT_EQ(gpus_and_gpcs(planner.name, problem), "slo") << planner.name;
    problem = published(4, 0.5);
    for (std::size_t s = 0; s < problem.services.size(); ++s)
      for (std::size_t t = 0; t < s; ++t)
        problem.services[s].avoid.push_back(problem.services[t].name);
    if (planner.name == "mig-serving-greedy") continue;  // its GPUs may have a service each
    refuses("anti_affinity");
  }
}

// A GPU of ten slices, so that the shares that ParvaGPU's authors measured under MPS are sizes.
plan::ServingProblem measured_under_mps(int number, double fraction) {
  plan::ServingProblem problem = published(number, fraction);
  plan::FleetEntry& entry = problem.fleet.front();
  entry.gpu.compute_slices = 10;
  entry.gpu.profiles = {entry.gpu.profiles.back()};
  entry.gpu.profiles[0].gpcs = 10;
  entry.profiles.clear();
  const std::string file = "data/published/gpulet/a100-mps.csv";
  const auto measured = profile::parse_csv(file, source_text(file));
  for (const profile::CsvRow& one : measured->rows) {
    auto& workload = entry.profiles[one.cells[0]];
    workload.model = one.cells[0];
    const int batch = std::stoi(one.cells[2]);
    const double rate = std::stod(one.cells[3]);
    workload.points.push_back(
        {std::stoi(one.cells[1]) / 10, batch, 1, Rps{rate}, Millis{1000 * batch / rate}, {}});
  }
  for (auto& [name, workload] : entry.profiles)
    std::ranges::sort(workload.points, {}, [](const profile::ProfilePoint& p) {
      return std::tuple(p.gpcs, p.processes, p.batch);
    });
  return problem;
}

// Their program on these measurements: 4, 8, 9, 10, 26, 27 by half of the SLO and 4, 7, 9, 10, 21,
// 27 by all of it. Only S5 by half differs: interference decides there, and ours knows no
// utilisation by model and share.
TEST(Gpulet, NeedsAsManyGpusAsItsAuthorsCodeOnWhatTheyMeasured) {
  std::vector<std::string> half, all;
  for (int number = 1; number <= 6; ++number) {
    half.push_back(gpus_and_gpcs("gpulet", measured_under_mps(number, 0.5)));
    all.push_back(gpus_and_gpcs("gpulet", measured_under_mps(number, 1)));
  }
  EXPECT_EQ(half, (Row{"4/40", "8/80", "9/90", "10/100", "24/240", "27/270"}));
  EXPECT_EQ(all, (Row{"4/40", "7/70", "9/90", "10/100", "21/210", "27/270"}));
}

}  // namespace
}  // namespace partita::planners::serving
