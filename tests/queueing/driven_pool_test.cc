// The judge's look at pools, which is short where Lundberg's inequality says that few can be late,
// against long runs of the simulator with other arrivals: random pools of the published profiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "base/rng.h"
#include "profile/testing/published.h"
#include "sim/service_world.h"
#include "verify/driven_queue.h"

namespace partita {
namespace {

struct RandomPool {
  std::vector<plan::PoolMember> members;
  double longest_ms = 0;
};

RandomPool random_pool(Rng& rng) {
  const profile::ProfileTable& table = profile::published_profiles();
  const auto model = std::next(table.begin(), static_cast<long>(rng.below(table.size())));
  RandomPool pool;
  for (std::uint64_t kinds = 1 + rng.below(2); kinds > 0; --kinds) {
    const profile::ProfilePoint& point =
        model->second.points[rng.below(model->second.points.size())];
    const profile::BatchCurve curve =
        profile::batch_curve(model->second, point.gpcs, point.processes, point.batch);
    pool.members.insert(pool.members.end(), 1 + rng.below(6), {curve, point.processes});
    pool.longest_ms = std::max(pool.longest_ms, curve.steps.back().latency.value);
  }
  return pool;
}

double late_in_simulator(const verify::DrivenQueue& queue, double requests) {
  const double seconds = requests / queue.load.value;
  const auto slo = static_cast<sim::Nanos>(std::llround(queue.slo.value * 1e6));
  const sim::ServiceOutcome outcome =
      sim::ServiceWorld().run({.arrivals = sim::ArrivalSource::poisson(queue.load, Rng(77)),
                               .queues = {{queue.policy, queue.load}},
                               .slo = slo,
                               .end = static_cast<sim::Nanos>(seconds * 1e9)});
  return 1 - static_cast<double>(outcome.within_slo) / static_cast<double>(outcome.offered);
}

TEST(DrivenPool, TheJudgeAgreesWithLongRuns) {
  constexpr double kPercentiles[] = {90, 95, 99, 99.5};
  constexpr double kNoise = 0.25;  // of the allowance: both are counts of late requests in clusters
  Rng rng(5);
  int kept = 0, missed = 0;
  verify::UnitArrivals units;
  for (int round = 0; round < 60; ++round) {
    const RandomPool pool = random_pool(rng);
    verify::DrivenQueue queue{{}, Rps{0}, Millis{0}, kPercentiles[rng.below(4)]};
    queue.slo = Millis{pool.longest_ms * (1.1 + 1.6 * rng.uniform())};
    queue.policy = plan::pooled_policy(pool.members, std::llround(queue.slo.value * 1e6));
    queue.load = verify::full_rate(queue.policy) * (0.65 + 0.33 * rng.uniform());
    const verify::DrivenVerdict verdict = verify::drive(queue, units);
    const double allowed = 1 - queue.percentile / 100;
    const double late = late_in_simulator(queue, 150'000);
    (verdict.holds ? kept : missed) += 1;
    if (verdict.holds)
      EXPECT_LE(late, (1 + kNoise) * allowed) << round;
    else
      EXPECT_GE(late, (1 - kNoise) * allowed) << round;
  }
  EXPECT_GE(kept, 15);
  EXPECT_GE(missed, 10);
}

}  // namespace
}  // namespace partita
