// Plans that keep every SLO when any one GPU is lost: against the judge, exhaustive search over all
// placements, and a simulation of every loss.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/test_rounds.h"
#include "planners/serving/exact.h"
#include "planners/serving/planner.h"
#include "problems.h"
#include "sim/serving.h"
#include "verify/serving.h"

namespace partita::planning_test {
namespace {

using planners::serving::plan_exact;

plan::ServingPlan planned_with_spares(const plan::ServingProblem& problem) {
  auto outcome = plan_exact(problem, {});
  for (const plan::Reason& refusal : outcome.refusals) ADD_FAILURE() << to_string(refusal);
  if (!outcome.plan) return {};
  EXPECT_EQ(outcome.plan->survive, 1);
  for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
    ADD_FAILURE() << to_string(violation);
  return *outcome.plan;
}

// Every GPU lost in turn: the services' least attainment against their percentile, over a minute.
void expect_losses_kept(const plan::ServingProblem& problem, const plan::ServingPlan& plan) {
  for (std::size_t lost = 0; lost < plan.gpus.size(); ++lost) {
    plan::ServingPlan left = plan;
    left.gpus.erase(left.gpus.begin() + static_cast<std::ptrdiff_t>(lost));
    const auto report = sim::simulate(problem, left, {});
    ASSERT_TRUE(report) << to_string(report.error());
    for (const sim::ServiceReport& service : report->services)
      EXPECT_GE(service.slo_attainment, 0.99) << service.name << " without gpu " << lost;
  }
}

TEST(Survive, ScenariosByExecutionLatency) {
  const std::pair<int, int> fewest[] = {{3, 17}, {5, 31}, {7, 46}, {9, 57}, {16, 107}, {19, 131}};
  for (int s = 1; s <= 6; ++s) {
    plan::ServingProblem problem = scenario(s);
    problem.survive = 1;
    const plan::ServingPlan plan = planned_with_spares(problem);
    EXPECT_EQ(std::pair(plan.objective.gpus, plan.objective.gpcs), fewest[s - 1]) << "S" << s;
    EXPECT_EQ(plan.objective.lower_bound_gpus, plan.objective.gpus) << "S" << s;
    EXPECT_EQ(plan.objective.optimal, s > 1) << "S" << s;
  }
}

TEST(Survive, ScenariosAsPools) {
  for (int s = 1; s <= 4; ++s) {
    plan::ServingProblem problem = scenario(s);
    problem.rule = {};
    problem.survive = 1;
    const plan::ServingPlan plan = planned_with_spares(problem);
    EXPECT_LE(plan.objective.gpus, plan.objective.lower_bound_gpus + (s == 3)) << "S" << s;
    expect_losses_kept(problem, plan);
    problem.survive = 0;
    const auto without = plan_exact(problem, {});
    ASSERT_TRUE(without.plan);
    problem.survive = 1;
    EXPECT_FALSE(verify::verify(problem, *without.plan).empty()) << "S" << s;
  }
}

// All that an A30 can hold of two services: what each gets of it, and how many slices that takes.
struct Filled {
  std::array<double, 2> rate{};
  int gpcs = 0;
};

std::vector<Filled> fillings(const std::vector<std::vector<double>>& rates) {
  const std::vector<std::vector<std::size_t>> layouts{{2}, {1, 1}, {1, 0, 0}, {0, 0, 0, 0}};
  const int slices[] = {1, 2, 4};
  std::map<std::array<double, 2>, int> least;
  for (const auto& layout : layouts) {
    int ways = 1;
    for (std::size_t i = 0; i < layout.size(); ++i) ways *= 3;
    for (int way = 0; way < ways; ++way) {
      Filled gpu;
      int digits = way;
      for (const std::size_t k : layout) {
        const int service = digits % 3 - 1;
        digits /= 3;
        if (service < 0) continue;
        gpu.rate[static_cast<std::size_t>(service)] += rates[static_cast<std::size_t>(service)][k];
        gpu.gpcs += slices[k];
      }
      const auto [at, fresh] = least.emplace(gpu.rate, gpu.gpcs);
      if (!fresh) at->second = std::min(at->second, gpu.gpcs);
    }
  }
  std::vector<Filled> found;
  for (const auto& [rate, gpcs] : least) found.push_back({rate, gpcs});
  return found;
}

// The least slices on so many GPUs such that both services keep their rate without any of them.
class Losses {
 public:
  Losses(std::vector<Filled> fillings, std::array<double, 2> wanted)
      : fillings_(std::move(fillings)), wanted_(wanted) {}

  int least_gpcs(int gpus) {
    best_ = kNone;
    visit(gpus, 0, {}, {}, 0);
    return best_;
  }
  static constexpr int kNone = 1'000'000;

 private:
  using Rates = std::array<double, 2>;

  void visit(int gpus, std::size_t from, Rates sum, Rates largest, int gpcs) {
    if (gpcs >= best_) return;
    if (gpus == 0) {
      for (std::size_t s = 0; s < 2; ++s)
        if (sum[s] - largest[s] < wanted_[s] * (1 - 1e-9)) return;
      best_ = gpcs;
      return;
    }
    for (std::size_t f = from; f < fillings_.size(); ++f) {
      Rates next = sum, most = largest;
      for (std::size_t s = 0; s < 2; ++s) {
        next[s] += fillings_[f].rate[s];
        most[s] = std::max(most[s], fillings_[f].rate[s]);
      }
      visit(gpus - 1, f, next, most, gpcs + fillings_[f].gpcs);
    }
  }

  std::vector<Filled> fillings_;
  Rates wanted_;
  int best_ = kNone;
};

TEST(Survive, AgainstAllPlacements) {
  Rng rng(12);
  int proven = 0, compared = 0;
  for (int round = 0; round < test_rounds(120); ++round) {
    plan::ServingProblem problem = random_problem(rng, "A30-24GB", 2, 0.5 + 2.5 * rng.uniform());
    if (problem.services.size() != 2) continue;
    problem.survive = 1;
    const plan::Objective objective = planned_with_spares(problem).objective;
    Losses oracle(fillings(rates_of(problem, problem.fleet[0])),
                  {problem.services[0].rate.value, problem.services[1].rate.value});
    int gpus = 2;
    while (gpus <= 4 && oracle.least_gpcs(gpus) == Losses::kNone) ++gpus;
    if (gpus > 4) continue;
    ++compared;
    EXPECT_LE(objective.lower_bound_gpus, gpus) << round;
    EXPECT_GE(objective.gpus, gpus) << round;
    EXPECT_LE(objective.gpus, gpus + 1) << round;
    if (objective.gpus == gpus) {
      EXPECT_LE(objective.lower_bound_gpcs, oracle.least_gpcs(gpus)) << round;
      EXPECT_GE(objective.gpcs, oracle.least_gpcs(gpus)) << round;
    }
    if (!objective.optimal) continue;
    ++proven;
    EXPECT_EQ(std::pair(objective.gpus, objective.gpcs), std::pair(gpus, oracle.least_gpcs(gpus)))
        << round;
  }
  EXPECT_GT(compared, 0);
  EXPECT_GT(proven, compared / 2);
  RecordProperty("compared", compared);
  RecordProperty("proven", proven);
}

// Queues of their own carry what is left by their shares; a loss is judged, simulated, and worth a
// GPU at least: what it leaves is a plan without spares.
TEST(Survive, QueuesOfTheirOwn) {
  for (const plan::Dispatch server : {plan::Dispatch::paced, plan::Dispatch::per_process}) {
    for (int s = 1; s <= 2; ++s) {
      plan::ServingProblem problem = scenario(s);
      problem.rule = plan::rule_for(server);
      const auto without = plan_exact(problem, {});
      ASSERT_TRUE(without.plan);
      plan::ServingPlan unprepared = *without.plan;
      problem.survive = 1;
      const plan::ServingPlan plan = planned_with_spares(problem);
      EXPECT_GT(plan.objective.gpus, unprepared.objective.gpus);
      EXPECT_GE(plan.objective.lower_bound_gpus, unprepared.objective.lower_bound_gpus + 1);
      expect_losses_kept(problem, plan);
      const auto violations = verify::verify(problem, unprepared);
      EXPECT_TRUE(std::any_of(violations.begin(), violations.end(), [](const auto& violation) {
        return violation.constraint == "survive";
      }));
    }
  }
}

TEST(Survive, WishesHoldAsWell) {
  plan::ServingProblem problem = scenario(1);
  problem.survive = 1;
  problem.services[0].min_replicas = 4;
  problem.services[1].avoid = {problem.services[2].name, problem.services[3].name};
  EXPECT_GT(planned_with_spares(problem).objective.gpus, 3);
}

TEST(Survive, TooFewGpusAreRefused) {
  plan::ServingProblem problem = scenario(4);
  problem.survive = 1;
  problem.fleet[0].count = 8;
  const auto outcome = plan_exact(problem, {});
  ASSERT_EQ(outcome.refusals.size(), 1U);
  EXPECT_EQ(outcome.refusals[0].constraint, "fleet_count");
  EXPECT_EQ(outcome.refusals[0].need, 9);
  problem.fleet[0].count = 9;
  EXPECT_EQ(planned_with_spares(problem).objective.gpus, 9);
}

TEST(Survive, OtherPlannersRefuse) {
  plan::ServingProblem problem = scenario(1);
  problem.survive = 1;
  for (const auto& planner : planners::serving::planners()) {
    if (planner.name == "exact") continue;
    const auto outcome = planner.plan(problem, {});
    ASSERT_EQ(outcome.refusals.size(), 1U) << planner.name;
    EXPECT_NE(to_string(outcome.refusals[0]).find("survive"), std::string::npos) << planner.name;
    EXPECT_FALSE(plan::proven(outcome.refusals)) << planner.name;
  }
}

}  // namespace
}  // namespace partita::planning_test
