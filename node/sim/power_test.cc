#include "sim/power.h"

#include <gtest/gtest.h>

#include <cmath>

namespace partita::sim {
namespace {

// One service: 10 ms and 0.2 J above the idle board per request on all four units; 5 W per unit.
plan::PowerProblem one_service() {
  plan::PowerProblem problem;
  problem.table.gpu = "2x2";
  problem.table.units_in = {2, 2};
  problem.table.idle = {10};
  problem.table.clocks = {{{500}, {20}}, {{1000}, {30}}};
  problem.table.models = {{"m",
                           {{{500}, 2, 1, {40}, {25}, {24}},
                            {{500}, 4, 1, {20}, {50}, {26}},
                            {{1000}, 2, 1, {20}, {50}, {36}},
                            {{1000}, 4, 1, {10}, {100}, {50}},
                            {{1000}, 4, 4, {16}, {250}, {62}}}}};
  problem.services = {{"a", "m", {40}, {30}, 95}};
  return problem;
}

const plan::Setting kWhole{{1000}, {}, {4}, {1}};
const PowerDecision kStay = [](const plan::Observation&) { return kWhole; };

PowerRunOptions options_of(double rate, double seconds) {
  PowerRunOptions options;
  options.trace = {{seconds}, {{Rps{rate}}}};
  return options;
}

TEST(PowerRun, WithoutLoadTheBoardTakesItsIdlePower) {
  const plan::PowerProblem problem = one_service();
  const auto watts = [&](plan::Gating gating, const plan::Setting& setting) {
    const auto stay = [&](const plan::Observation&) { return setting; };
    const PowerRun run = simulate_power(problem, gating, setting, stay, options_of(0, 10));
    EXPECT_EQ(run.services[0].requests, 0);
    EXPECT_EQ(run.services[0].attained(), 1);
    return run.mean_power().value;
  };
  const plan::Setting half{{1000}, {}, {2}, {1}};
  EXPECT_NEAR(watts(plan::Gating::none, half), 30, 1e-9);
  EXPECT_NEAR(watts(plan::Gating::group, half), 20, 1e-9);
  EXPECT_NEAR(watts(plan::Gating::unit, half), 20, 1e-9);
}

// Every request takes 0.2 J beside the idle board, wherever it falls.
TEST(PowerRun, EnergyIsThatOfTheBoardAndOfTheRequests) {
  const plan::PowerProblem problem = one_service();
  PowerRunOptions options = options_of(40, 200);
  const PowerRun run = simulate_power(problem, plan::Gating::none, kWhole, kStay, options);
  const auto& service = run.services[0];
  EXPECT_NEAR(static_cast<double>(service.requests), 8000, 4 * std::sqrt(8000.0));
  EXPECT_NEAR(run.energy.value, 30 * 200 + 0.2 * static_cast<double>(service.requests), 1);
  double sum = 0, requests = 0;
  for (const PowerRunBin& bin : run.bins) {
    sum += bin.power.value;
    requests += bin.rate.value;
  }
  EXPECT_NEAR(sum, run.energy.value, 1e-6 * sum);
  EXPECT_NEAR(requests, static_cast<double>(service.requests), 1e-6);
}

// M/D/1 at load 0.4: mean wait rho s / 2 (1 - rho) = 3.33 ms is far below, the 95th percentile of
// the wait solves Erlang's sum: P(W <= t) = (1 - rho) sum_k (-x)^k/k! exp(x), x = rho (t/s - k).
TEST(PowerRun, WaitsAsLongAsTheFormulaSays) {
  const plan::PowerProblem problem = one_service();
  const PowerRun run =
      simulate_power(problem, plan::Gating::none, kWhole, kStay, options_of(40, 5000));
  const auto waits_at_most = [](double t) {
    double sum = 0, factorial = 1;
    for (int k = 0; k <= static_cast<int>(t); ++k) {
      if (k > 0) factorial *= k;
      const double x = 0.4 * (t - k);
      sum += std::pow(-x, k) / factorial * std::exp(x);
    }
    return 0.6 * sum;
  };
  double t = 0;
  while (waits_at_most(t) < 0.95) t += 0.001;
  EXPECT_NEAR(run.services[0].latency.value, 10 * (1 + t), 0.04 * 10 * (1 + t));
}

TEST(PowerRun, EvenArrivalsBelowTheRateNeverWait) {
  const plan::PowerProblem problem = one_service();
  PowerRunOptions options = options_of(99, 50);
  options.even = true;
  const PowerRun run = simulate_power(problem, plan::Gating::none, kWhole, kStay, options);
  EXPECT_NEAR(run.services[0].latency.value, 10, 0.05);
  EXPECT_EQ(run.services[0].late, 0);
}

TEST(PowerRun, OverloadIsLateAndBatchesHelp) {
  const plan::PowerProblem problem = one_service();
  const PowerRun run =
      simulate_power(problem, plan::Gating::none, kWhole, kStay, options_of(150, 20));
  EXPECT_LT(run.services[0].attained(), 0.1);
  EXPECT_FALSE(run.services[0].held());
  const plan::Setting batched{{1000}, {}, {4}, {4}};
  const auto stay = [&](const plan::Observation&) { return batched; };
  const PowerRun better =
      simulate_power(problem, plan::Gating::none, batched, stay, options_of(100, 20));
  EXPECT_GT(better.services[0].attained(), 0.9);
}

// What the controller says takes effect, is counted, and what it sees is what came.
TEST(PowerRun, SettingsChangeWhenTheControllerSaysSo) {
  const plan::PowerProblem problem = one_service();
  const plan::Setting slow{{500}, {}, {2}, {1}};
  double seen = 0;
  int polls = 0;
  const auto decide = [&](const plan::Observation& observation) {
    seen += observation.services[0].rate.value * 0.5;
    EXPECT_NEAR(observation.at.value, 0.5 * ++polls, 1e-9);
    return polls == 4 ? slow : (polls > 4 ? slow : kWhole);
  };
  PowerRunOptions options = options_of(10, 10);
  options.cost = {{3}, {4}};
  const PowerRun run = simulate_power(problem, plan::Gating::unit, kWhole, decide, options);
  EXPECT_EQ(run.clock_changes, 1);
  EXPECT_EQ(run.unit_changes, 1);
  EXPECT_EQ(run.bins[1].clock, Mhz{1000});
  EXPECT_EQ(run.bins[5].clock, Mhz{500});
  EXPECT_EQ(run.bins[5].units, 2);
  EXPECT_LE(seen, static_cast<double>(run.services[0].requests));
  EXPECT_GE(seen, static_cast<double>(run.services[0].requests) - 20);
  const double board = 2 * 30 + 8 * (10 + 2 * 2.5) + 7;
  EXPECT_GT(run.energy.value, board);
  EXPECT_LT(run.energy.value, board + 0.25 * static_cast<double>(run.services[0].requests));
}

TEST(PowerRun, SameSeedSameRun) {
  const plan::PowerProblem problem = one_service();
  const auto energy = [&](std::uint64_t seed) {
    PowerRunOptions options = options_of(40, 20);
    options.seed = seed;
    return simulate_power(problem, plan::Gating::none, kWhole, kStay, options).energy.value;
  };
  EXPECT_EQ(energy(7), energy(7));
  EXPECT_NE(energy(7), energy(8));
}

}  // namespace
}  // namespace partita::sim
