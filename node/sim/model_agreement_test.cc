// The promise of model/queueing.h, held against the simulator: predicted percentiles are within
// 10 % of simulated ones and never more than 5 % below.
#include <gtest/gtest.h>

#include <vector>

#include "model/queueing.h"
#include "sim/service_world.h"

namespace partita::sim {
namespace {

const std::vector<profile::BatchCurve> kCurves = {
    {{{1, Millis{4}}, {2, Millis{5}}, {4, Millis{7}}, {8, Millis{11}}, {16, Millis{19}}}},
    {{{1, Millis{10}}, {2, Millis{19}}, {4, Millis{37}}}},  // batching hardly pays
    {{{8, Millis{12}}, {32, Millis{30}}}},
};

ServiceOutcome simulated(const model::BatchQueue& queue, Rps load) {
  const double seconds = 300'000 / load.value;
  return ServiceWorld().run(
      {.arrivals = ArrivalSource::poisson(load, Rng(11)),
       .queues = {{plan::paced_policy(queue.curve, queue.processes), model::saturation(queue)}},
       .slo = kForever,
       .warmup = static_cast<Nanos>(seconds / 100 * kNanosPerSecond),
       .end = static_cast<Nanos>(seconds * kNanosPerSecond)});
}

TEST(ModelAgreement, PredictedPercentilesAreThoseOfTheSimulator) {
  for (std::size_t curve = 0; curve < kCurves.size(); ++curve) {
    for (const int processes : {1, 2, 3}) {
      for (const double share : {0.1, 0.4, 0.7, 0.9}) {
        const model::BatchQueue queue{kCurves[curve], processes};
        const Rps load = model::saturation(queue) * share;
        const ServiceOutcome outcome = simulated(queue, load);
        const std::vector<std::pair<double, Nanos>> percentiles = {
            {50, outcome.p50}, {95, outcome.p95}, {99, outcome.p99}};
        for (const auto& [percent, latency] : percentiles) {
          const double ratio = model::latency_percentile(queue, load, percent).value /
                               (static_cast<double>(latency) / kNanosPerMilli);
          EXPECT_GE(ratio, 0.95) << curve << ' ' << processes << ' ' << share << ' ' << percent;
          EXPECT_LE(ratio, 1.10) << curve << ' ' << processes << ' ' << share << ' ' << percent;
        }
      }
    }
  }
}

}  // namespace
}  // namespace partita::sim
