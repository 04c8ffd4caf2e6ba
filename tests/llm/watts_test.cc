// Language models for the fewest watts: against all plans of a small space, whose watts the judge's
// formula says, and figures by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

#include "base/index.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "hw/packing.h"
#include "planners/serving/exact.h"
#include "planners/serving/testing/token_cases.h"
#include "planners/serving/token_watts.h"
#include "verify/serving.h"
#include "verify/token_replica.h"

namespace partita::llm_test {
namespace {

constexpr double kIdleWatts = 60, kBusyWatts = 400;
const char* const kInstances[] = {"1g.10gb", "3g.40gb", "7g.80gb"};

plan::Service burning(const std::string& model, double rate) {
  plan::Service service{.name = "s", .model = model, .rate = Rps{rate}, .percentile = 95};
  service.tokens = plan::TokenTerms{
      .ttft = Millis{2500},
      .tpot = Millis{50},
      .lengths = plan::TokenPair{plan::LognormalTokens{600, 0.6}, plan::LognormalTokens{150, 0.6}}};
  return service;
}

plan::ServingProblem for_watts(const plan::Service& service) {
  plan::ServingProblem problem;
  problem.fleet.push_back(planners::serving::made_up_fleet());
  problem.fleet[0].power = plan::GpuPower{Watts{kIdleWatts}, Watts{kBusyWatts}, Watts{0}};
  for (auto& [model, engines] : problem.fleet[0].engines)
    std::erase_if(engines, [](const profile::TokenEngine& one) {
      return one.gpus > 2 || one.mig_profile == "2g.20gb" || one.mig_profile == "4g.40gb";
    });
  problem.goal = plan::Goal::energy;
  problem.services.push_back(service);
  return problem;
}

// Requests/s and joules of a request of an instance of each size, and of a group of two.
struct Burning {
  std::array<double, 4> rate{}, joules{};
};

Burning burning_of(const plan::ServingProblem& problem, planners::serving::TokenOracle& oracle) {
  const plan::FleetEntry& entry = problem.fleet[0];
  Burning found;
  for (const profile::TokenEngine& engine : entry.engines.at(problem.services[0].model)) {
    const std::string name = engine.mig_profile.empty() ? "7g.80gb" : engine.mig_profile;
    const std::size_t k =
        engine.gpus == 2 ? 3
                         : at(static_cast<int>(std::ranges::find(kInstances, name) - kInstances));
    const auto rate = oracle.rate(problem.services[0], engine);
    const double gpcs = entry.gpu.profiles[at(entry.gpu.profile_index(name))].gpcs;
    found.rate[k] = rate.rate.value;
    found.joules[k] = (kBusyWatts - kIdleWatts) * gpcs / 7 *
                      verify::busy_seconds(problem.services[0], engine, rate.sequences);
  }
  return found;
}

// Of all numbers of instances on so many GPUs at most.
double least_watts(const plan::ServingProblem& problem, const Burning& each, int most_gpus) {
  const hw::GpuModel& gpu = problem.fleet[0].gpu;
  std::vector<int> profiles;
  for (const char* const name : kInstances) profiles.push_back(gpu.profile_index(name));
  const hw::PackingRules rules = hw::packing_rules(gpu, profiles);
  const double rate = problem.services[0].rate.value;
  double best = std::numeric_limits<double>::infinity();
  std::array<int, 4> n{};
  const std::function<void(std::size_t)> visit = [&](std::size_t k) {
    if (k < n.size()) {
      const int most = each.rate[k] <= 0 ? 0
                       : k == 0          ? 7 * most_gpus
                       : k == 1          ? 2 * most_gpus
                                         : most_gpus;
      for (n[k] = 0; n[k] <= most; ++n[k]) visit(k + 1);
      n[k] = 0;
      return;
    }
    double carried = 0, joules = 0;
    for (std::size_t i = 0; i < n.size(); ++i) {
      carried += n[i] * each.rate[i];
      joules += n[i] * each.rate[i] * each.joules[i];
    }
    if (carried < rate * (1 - 1e-9)) return;
    for (int gpus = 2 * n[3]; gpus <= most_gpus; ++gpus) {
      const double watts = gpus * kIdleWatts + rate * joules / carried;
      if (watts >= best) return;
      if (!hw::pack(rules, {n[0], n[1], n[2]}, gpus - 2 * n[3])) continue;
      best = watts;
      return;
    }
  };
  visit(0);
  return best;
}

TEST(WattsOfLanguageModels, AreTheFewestOfAllPlansOfTheirReplicas) {
  planners::serving::TokenOracle oracle;
  planners::serving::Options options;
  options.tokens = &oracle;
  Rng rng(12);
  int compared = 0, proven = 0;
  const int rounds = test_rounds(24);
  for (int round = 0; round < rounds; ++round) {
    const std::pair<const char*, double> scales[] = {
        {"m3", 30}, {"m8", 12}, {"m14", 6}, {"m32", 3}};
    const auto& [model, scale] = scales[rng.below(4)];
    plan::ServingProblem problem = for_watts(burning(model, scale * (0.1 + rng.uniform())));
    const auto outcome = planners::serving::plan_exact(problem, options);
    ASSERT_TRUE(outcome.plan) << round;
    const plan::Objective& objective = outcome.plan->objective;
    for (const plan::Reason& violation : verify::verify(problem, *outcome.plan))
      ADD_FAILURE() << round << ": " << to_string(violation);
    EXPECT_LE(objective.lower_bound_watts, objective.watts);
    if (objective.gpus > 4) continue;
    const double least = least_watts(problem, burning_of(problem, oracle), objective.gpus + 1);
    ++compared;
    EXPECT_NEAR(objective.watts, least, 1e-6 * least) << round << " " << model;
    EXPECT_LE(objective.lower_bound_watts, least * (1 + 1e-9)) << round;
    proven += objective.optimal;
    // As many watts as are said, and no others: the judge counts.
    plan::ServingPlan wrong = *outcome.plan;
    wrong.objective.watts *= 0.999;
    EXPECT_FALSE(verify::verify(problem, wrong).empty());
  }
  EXPECT_GT(compared, rounds / 3);
  std::printf("%d compared, %d proven\n", compared, proven);
}

// Never fewer GPUs than the plan of the fewest, nor more watts than it; less to do takes less.
TEST(WattsOfLanguageModels, AreNoMoreThanThoseOfTheFewestGpus) {
  planners::serving::TokenOracle oracle;
  planners::serving::Options options;
  options.tokens = &oracle;
  Rng rng(9);
  for (int round = 0; round < test_rounds(6); ++round) {
    plan::ServingProblem problem = for_watts(burning("m8", 2 + 20 * rng.uniform()));
    const auto least = planners::serving::plan_exact(problem, options);
    plan::ServingProblem fewest = problem;
    fewest.goal.reset();
    const auto few = planners::serving::plan_exact(fewest, options);
    ASSERT_TRUE(least.plan && few.plan);
    EXPECT_GE(least.plan->objective.gpus, few.plan->objective.gpus);
    problem.services[0].rate = 0.8 * problem.services[0].rate;
    const auto less = planners::serving::plan_exact(problem, options);
    ASSERT_TRUE(less.plan);
    EXPECT_LE(less.plan->objective.watts, least.plan->objective.watts * (1 + 1e-9)) << round;
  }
}

// An engine that is busy for little and always late is bound by, and not planned with.
TEST(WattsOfLanguageModels, DoNotTakeWhatIsAlwaysLate) {
  plan::ServingProblem problem = for_watts(burning("m8", 9));
  const auto before = planners::serving::plan_exact(problem, {});
  ASSERT_TRUE(before.plan);
  auto& engines = problem.fleet[0].engines.at("m8");
  profile::TokenEngine late =
      *std::ranges::find(engines, "3g.40gb", &profile::TokenEngine::mig_profile);
  late.mig_profile = "2g.20gb";
  late.request_ms = 1e5;
  engines.push_back(late);
  const auto made = planners::serving::plan_exact(problem, {});
  ASSERT_TRUE(made.plan);
  for (const plan::Reason& violation : verify::verify(problem, *made.plan))
    ADD_FAILURE() << to_string(violation);
  EXPECT_NEAR(made.plan->objective.watts, before.plan->objective.watts, 1e-6);
  EXPECT_LE(made.plan->objective.lower_bound_watts, before.plan->objective.watts);
}

// One sequence at a time: a request takes its prompt and all of its steps; two GPUs burn twice as
// much. Planner and judge by formulas of their own.
TEST(WattsOfLanguageModels, AreThoseByHand) {
  plan::Service service = burning("m8", 1);
  service.tokens->lengths = plan::TokenPair{100, 11};
  profile::TokenEngine engine{.name = {"e"}, .mig_profile = "", .gpus = 2};
  engine.spec = {.cost = {.step = 10, .sequence = 2, .prompt_token = 0.5},
                 .step_tokens = 1000,
                 .sequences = 8,
                 .blocks = 1000};
  const plan::FleetEntry entry = for_watts(service).fleet[0];
  const double alone = 50 + 10 * 12;
  EXPECT_NEAR(planners::serving::joules_per_answer(entry, service, engine, 1),
              2 * (kBusyWatts - kIdleWatts) * alone / 1e3, 1e-9);
  EXPECT_NEAR(verify::busy_seconds(service, engine, 1), 2 * alone / 1e3, 1e-12);
  // Eight share a step; TPOT of 20 ms lets five do so; a step of 26 ms lets eight.
  const double eight = 50 + 10 * 26 / 8.0, five = 50 + 10 * 20 / 5.0;
  EXPECT_NEAR(verify::busy_seconds(service, engine, 8), 2 * eight / 1e3, 1e-12);
  service.tokens->tpot = Millis{20};
  EXPECT_NEAR(verify::busy_seconds(service, engine, 8), 2 * five / 1e3, 1e-12);
  EXPECT_NEAR(planners::serving::joules_per_answer(entry, service, engine, 8),
              2 * (kBusyWatts - kIdleWatts) * five / 1e3, 1e-9);
}

// Of all engines and limits, with prefixes, apart and beside: both formulas say the same.
TEST(WattsOfLanguageModels, AreTheSameByBothFormulas) {
  Rng rng(3);
  const plan::FleetEntry entry = for_watts(burning("m8", 1)).fleet[0];
  for (int round = 0; round < 300; ++round) {
    plan::Service service = burning("m8", 1);
    service.tokens->tpot = Millis{rng.below(3) == 0 ? 0 : 10 + 60 * rng.uniform()};
    service.tokens->prefix_share = rng.below(2) == 0 ? 0 : rng.uniform();
    service.tokens->prefix_tokens = 300;
    const auto& engines = entry.engines.at(rng.below(2) == 0 ? "m8" : "m3");
    profile::TokenEngine engine = engines[rng.below(engines.size())];
    if (rng.below(2) == 0) {
      engine.spec.cost.root_sequences = rng.uniform();
    } else if (rng.below(2) == 0) {
      engine.spec.cost.crowded = rng.uniform();
      engine.spec.cost.crowded_from = static_cast<int>(rng.below(30));
    }
    if (rng.below(3) == 0) engine.spec.blocks = 200;
    if (engine.gpus == 2 && rng.below(2) == 0) engine.prefills = engine.decodes = 1;
    if (engine.gpus == 1 && rng.below(4) == 0) {
      engine.prefill_units = 30;
      engine.decode_units = 60;
      engine.prompt_spec = engine.spec;
      engine.prompt_spec.cost.prompt_token *= 3;
    }
    const int at_once = 1 + static_cast<int>(rng.below(256));
    const std::string name = engine.mig_profile.empty() ? "7g.80gb" : engine.mig_profile;
    const double gpcs = entry.gpu.profiles[at(entry.gpu.profile_index(name))].gpcs;
    const double judged = verify::busy_seconds(service, engine, at_once);
    EXPECT_NEAR(planners::serving::joules_per_answer(entry, service, engine, at_once),
                judged * (kBusyWatts - kIdleWatts) * gpcs / 7, 1e-9 * (1 + judged * kBusyWatts))
        << round;
  }
}

}  // namespace
}  // namespace partita::llm_test
