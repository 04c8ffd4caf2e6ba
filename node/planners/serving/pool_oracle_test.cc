// Does what the planner holds to be enough for bursts and recordings that are too long to be played
// keep its promise when they are played all the same, from other draws?
#include "planners/serving/pool_oracle.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/rng.h"

namespace partita::planners::serving {
namespace {

constexpr long kTold = 40'000;
constexpr const char* kModel = "m";

plan::ServingProblem one_service(Rps rate, Millis slo, double percentile, plan::Arrivals law) {
  plan::ServingProblem problem;
  profile::WorkloadProfile& profile = problem.fleet.emplace_back().profiles[kModel];
  profile.model = kModel;
  profile.points = {{.gpcs = 1,
                     .batch = 1,
                     .processes = 1,
                     .throughput = Rps{125},
                     .latency = Millis{8},
                     .memory = {}},
                    {.gpcs = 1,
                     .batch = 4,
                     .processes = 1,
                     .throughput = Rps{200},
                     .latency = Millis{20},
                     .memory = {}}};
  plan::Service& service = problem.services.emplace_back();
  service.name = service.model = kModel;
  service.rate = rate;
  service.slo = slo;
  service.percentile = percentile;
  service.traffic.arrivals = std::move(law);
  return problem;
}

PoolParts instances(int count) {
  return {{.entry = 0, .gpcs = 1, .batch = 4, .processes = 1, .instances = count}};
}

// Of those of whole periods.
double late_share(const plan::ServingProblem& problem, int count, long requests) {
  const plan::Service& service = problem.services.front();
  PoolOracle oracle(problem);
  model::PoolRun run(oracle.pool_of(service, instances(count)), service.slo);
  plan::ArrivalSource source =
      plan::ArrivalSource::of(service.traffic.arrivals, service.rate, Rng(91));
  run.arrivals([&] { return source.next(); });
  return run.run(requests, requests).share();
}

int fewest(PoolOracle& oracle, const plan::Service& service) {
  for (int count = 1; count < 64; ++count)
    if (oracle.carries(service, instances(count)) && oracle.check(service, instances(count)).holds)
      return count;
  return 64;
}

plan::Arrivals random_law(Rng& rng) {
  const double peak = 2 + 6 * rng.uniform(), every = 200 + 600 * rng.uniform();
  const plan::OnOff on_off{peak, every * (0.005 + 0.3 * rng.uniform() / peak), every};
  const double kind = rng.uniform();
  if (kind < 0.4) return plan::BurstArrivals{on_off};
  if (kind < 0.6) return plan::MmppArrivals{on_off};
  std::vector<double> counts(40);
  for (double& one : counts) one = 50 + 50 * rng.uniform();
  for (std::size_t i = 0; i < 1 + rng.below(5); ++i) counts[rng.below(counts.size())] *= peak;
  return plan::TraceArrivals{
      "x", "", std::make_shared<const plan::TrafficTrace>(plan::TrafficTrace{{}, counts})};
}

TEST(PoolOracle, LongBurstsAreNotOverlooked) {
  const plan::OnOff on_off{.peak = 10, .seconds = 40, .every = 2000};
  const auto problem = one_service(Rps{100}, Millis{100}, 99, plan::BurstArrivals{on_off});
  PoolOracle oracle(problem, nullptr, kTold);
  const int count = fewest(oracle, problem.services.front());
  EXPECT_GE(count, 5);  // 1,000/s in a fifth of all requests, of 200/s each
  EXPECT_LE(count, 7);
  EXPECT_LE(late_share(problem, count, 12 * 200'000), 0.01);
}

TEST(PoolOracle, WhatHoldsForStretchesHoldsForTheWhole) {
  constexpr double kPercentiles[] = {90, 95, 99, 99.9};
  constexpr int kRounds = 8;
  Rng rng(9);
  int planned = 0, spare = 0;  // instances; half of what may be late leaves so many
  for (int round = 0; round < kRounds; ++round) {
    const double percentile = kPercentiles[rng.below(4)];
    const auto problem = one_service(Rps{200 + 600 * rng.uniform()},
                                     Millis{60 + 300 * rng.uniform()}, percentile, random_law(rng));
    const plan::Service& service = problem.services.front();
    PoolOracle oracle(problem, nullptr, kTold);
    const int count = fewest(oracle, service);
    ASSERT_LT(count, 64) << round;
    const long whole = plan::telling_requests(service.traffic.arrivals, service.rate, 3'000'000);
    const double late = late_share(problem, count, whole), allowed = 1 - percentile / 100;
    EXPECT_LE(late, allowed) << round << ' ' << plan::to_string(service.traffic.arrivals);
    planned += count;
    for (int less = count - 1; less > 0; --less, ++spare)
      if (late_share(problem, less, whole) > allowed / 2) break;
  }
  EXPECT_LE(spare, planned / 5);
}

}  // namespace
}  // namespace partita::planners::serving
