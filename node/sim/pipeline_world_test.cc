#include "sim/pipeline_world.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plan/arrivals.h"

namespace partita::sim {
namespace {

constexpr Nanos kMs = 1'000'000;
constexpr double kCarries[] = {400, 400, 100};  // requests per second of each step

// A request of three steps, 10, 10 and 40 ms in batches of 4; 250 ms are promised. Each pool is
// planned with a share of `share` ms.
ChainedRun chain(double rate, double share, bool refuses = true) {
  ChainedRun run;
  ChainedSource source;
  source.slo = 250 * kMs;
  source.graph = {{{}, {0}, {1}}, {0, 1, 2}, {3, 3, 3}, {1, 1, 1}};
  source.fan_out = {1, 1, 1};
  for (std::size_t s = 0; s < 3; ++s) {
    profile::BatchCurve curve{{{1, Millis{3e3 / kCarries[s]}}, {4, Millis{4e3 / kCarries[s]}}}};
    const auto slo = static_cast<Nanos>(share * 1e6);
    run.pools.push_back({plan::pooled_policy({{curve, 1}}, slo), refuses, slo});
    source.pools.push_back(s);
  }
  source.arrivals = ArrivalSource::of({}, Rps{rate}, Rng(7));
  run.sources.push_back(std::move(source));
  run.warmup = 5'000 * kMs;
  run.end = 65'000 * kMs;
  run.rng = Rng(3);
  return run;
}

double per_second(long count) { return static_cast<double>(count) / 60; }

TEST(PipelineWorld, RefusesNobodyWhileItCarriesWhatComes) {
  const ChainedOutcome outcome = play(chain(60, 150));
  const ChainedCount& whole = outcome.sources[0];
  EXPECT_EQ(whole.refused, 0);
  EXPECT_GT(whole.offered, 3000);
  EXPECT_EQ(whole.within_slo, whole.offered);
}

// Twice what the last step carries, and half of what the first ones do.
TEST(PipelineWorld, RefusesAtTheDoorWhomTheLastStepWouldRefuse) {
  for (const double share : {90.0, 150.0, 240.0}) {
    const ChainedOutcome outcome = play(chain(200, share));
    const ChainedCount& whole = outcome.sources[0];
    EXPECT_GT(per_second(whole.within_slo), 0.93 * kCarries[2]) << share;
    EXPECT_GE(whole.within_slo, static_cast<long>(0.98 * static_cast<double>(whole.completed)))
        << share << ": who was let in was answered in time";
    // Work of the first step for those who never had an answer.
    const double wasted = per_second(outcome.pools[0].completed) - per_second(whole.completed);
    EXPECT_LT(wasted, 0.06 * kCarries[2]) << share;
  }
}

TEST(PipelineWorld, LetsAllInWhereNothingIsRefused) {
  const ChainedOutcome outcome = play(chain(200, 150, false));
  EXPECT_EQ(outcome.sources[0].refused, 0);
  EXPECT_LT(outcome.sources[0].within_slo, outcome.sources[0].offered / 20);
}

}  // namespace
}  // namespace partita::sim
