#include "planners/power/schedule.h"

#include <gtest/gtest.h>

#include <functional>

#include "plan/testing/random_power.h"

namespace partita::power {
namespace {

plan::PowerTrace random_trace(Rng& rng, const plan::PowerProblem& problem, int steps) {
  plan::PowerTrace trace{{1}, {}};
  for (int t = 0; t < steps; ++t) {
    trace.rates.emplace_back();
    for (const plan::Terms& service : problem.services)
      trace.rates.back().push_back(service.rate * (rng.below(4) == 0 ? 0 : rng.uniform()));
  }
  return trace;
}

// The least energy over all sequences of settings of one service, by trying them.
double least_energy(const Chooser& chooser, const plan::PowerTrace& trace,
                    const plan::TransitionCost& cost) {
  const GpuSearch search = chooser.search();
  std::vector<GpuSetting> settings;
  for (std::size_t c = 0; c < search.table.clocks.size(); ++c)
    for (const ServiceOption& option : (*search.services[0])[c])
      settings.push_back({c, {&option}, {0}});
  double best = 1e300;
  const std::function<void(std::size_t, const GpuSetting*, double)> walk =
      [&](std::size_t t, const GpuSetting* before, double energy) {
        if (energy >= best) return;
        if (t == trace.rates.size()) {
          best = energy;
          return;
        }
        for (const GpuSetting& next : settings) {
          if (next.options[0]->capacity < trace.rates[t][0]) continue;
          double more = power_at(search.table, chooser.policy().gating, next, trace.rates[t]).value;
          if (before && before->clock != next.clock) more += cost.clock.value;
          if (before && before->options[0]->units != next.options[0]->units)
            more += cost.units.value;
          walk(t + 1, &next, energy + more);
        }
      };
  walk(0, nullptr, 0);
  return best;
}

TEST(Schedule, OfOneServiceIsTheLeastOfAll) {
  int solved = 0;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    Rng rng(seed);
    const plan::PowerProblem problem = plan::random_power_problem(rng, 1);
    const auto chooser = Chooser::make(problem, *policy_named("exact", problem.gating));
    if (!chooser) continue;
    const plan::PowerTrace trace = random_trace(rng, problem, 4);
    const plan::TransitionCost cost{{5 * rng.uniform()}, {5 * rng.uniform()}};
    const auto schedule = plan_schedule(*chooser, trace, cost);
    ASSERT_TRUE(schedule) << to_string(schedule.error());
    const double least = least_energy(*chooser, trace, cost);
    EXPECT_NEAR(schedule->energy.value, least, 1e-9 * least) << seed;
    EXPECT_NEAR(schedule->bound.value, least, 1e-9 * least) << seed;
    ++solved;
  }
  EXPECT_GT(solved, 15);
}

// Also with several services and whatever changes cost; and the bound is one.
TEST(Schedule, ExactNeverTakesMoreThanCofris) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    Rng rng(seed);
    plan::PowerProblem problem = plan::random_power_problem(rng, 1 + static_cast<int>(seed % 3));
    problem.gating = plan::Gating::unit;
    const auto exact = Chooser::make(problem, *policy_named("exact", problem.gating));
    const auto cofris = Chooser::make(problem, *policy_named("cofris-cu", problem.gating));
    if (!exact || !cofris) continue;
    const plan::PowerTrace trace = random_trace(rng, problem, 12);
    const plan::TransitionCost cost{{20 * rng.uniform() * rng.uniform()},
                                    {20 * rng.uniform() * rng.uniform()}};
    const auto ours = plan_schedule(*exact, trace, cost);
    const auto theirs = plan_schedule(*cofris, trace, cost);
    ASSERT_TRUE(ours && theirs);
    EXPECT_LE(ours->energy.value, theirs->energy.value * (1 + 1e-12)) << seed;
    EXPECT_LE(ours->bound.value, ours->energy.value) << seed;
    ++compared;
  }
  EXPECT_GT(compared, 60);
}

TEST(Schedule, NamesTheStepThatIsTooMuch) {
  Rng rng(2);
  const plan::PowerProblem problem = plan::random_power_problem(rng, 1);
  const auto chooser = Chooser::make(problem, *policy_named("exact", problem.gating));
  ASSERT_TRUE(chooser);
  const plan::PowerTrace trace{{2}, {{Rps{0}}, {Rps{1e7}}}};
  const auto schedule = plan_schedule(*chooser, trace, {});
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().code, ErrorCode::infeasible);
  EXPECT_NE(schedule.error().message.find("at 2 s"), std::string::npos);
  const auto none = plan_schedule(*chooser, {{1}, {}}, {});
  EXPECT_TRUE(none && none->energy.value == 0);
}

}  // namespace
}  // namespace partita::power
