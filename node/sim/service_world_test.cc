// The simulated world of one service against queueing theory: closed forms where there are some,
// numerically solved Markov chains where there are none.
#include "sim/service_world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace partita::sim {
namespace {

constexpr double kServiceWorldMilli = kNanosPerMilli;

profile::BatchCurve flat(int batch, double latency_ms) { return {{{batch, Millis{latency_ms}}}}; }

plan::DispatchPolicy paced(profile::BatchCurve curve, int processes = 1) {
  return plan::paced_policy(std::move(curve), processes);
}

// Full batches only, with no pace.
plan::DispatchPolicy full_batches(profile::BatchCurve curve, int processes) {
  return {
      .members = {{std::move(curve), processes}}, .max_wait = kForever, .paced = false, .slo = {}};
}

struct Load {
  plan::DispatchPolicy policy;
  double rate = 1;  // per second
  double requests = 1e6;
  std::uint64_t seed = 5;
};

ServiceOutcome run(const Load& load) {
  ServiceSpec spec{.arrivals = ArrivalSource::poisson(Rps{load.rate}, Rng(load.seed)),
                   .queues = {{load.policy, Rps{100}}},
                   .slo = kForever,
                   .warmup = 0,
                   .end = static_cast<Nanos>(load.requests / load.rate * kNanosPerSecond)};
  return ServiceWorld().run(spec);
}

// Probability that an arrival to M/D/1 waits at most x (Erlang 1909); times in units of service.
double md1_wait_at_most(double load, double x) {
  long double sum = 0;
  for (int k = 0; k <= static_cast<int>(x); ++k) {
    const long double y = static_cast<long double>(load) * (x - k);
    sum += std::pow(-y, static_cast<long double>(k)) / std::tgammal(k + 1.0L) * std::exp(y);
  }
  return static_cast<double>((1 - load) * sum);
}

TEST(ServiceWorld, BatchOfOneIsMD1InMeanAndDistribution) {
  const double load = 0.7, service_ms = 10;
  const auto out = run({paced(flat(1, service_ms)), 1e3 * load / service_ms});
  const double mean_wait = load / (2 * (1 - load)) * service_ms;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli, service_ms + mean_wait,
              0.02 * (service_ms + mean_wait));
  const auto at_most = [&](Nanos latency) {
    return md1_wait_at_most(load,
                            static_cast<double>(latency) / kServiceWorldMilli / service_ms - 1);
  };
  EXPECT_NEAR(at_most(out.p50), 0.50, 0.004);
  EXPECT_NEAR(at_most(out.p95), 0.95, 0.002);
  EXPECT_NEAR(at_most(out.p99), 0.99, 0.001);
  EXPECT_NEAR(out.activity[0][0], load, 0.01);
}

TEST(ServiceWorld, PacingMakesTheEntryASingleServer) {
  // P = 4 processes, batch 1: the entry is M/D/1 with service L/P, execution takes L.
  const double load = 0.8, latency_ms = 20;
  const auto out = run({paced(flat(1, latency_ms), 4), 4e3 * load / latency_ms});
  const double mean = latency_ms + load / (2 * (1 - load)) * latency_ms / 4;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli, mean,
              0.02 * load / (2 * (1 - load)) * latency_ms / 4);
}

// Mean number waiting in M/D/c: the number in the system, watched every service time D, is the
// Markov chain n -> max(n - c, 0) + Poisson(arrivals in D), and its law is the stationary one.
double mdc_mean_queue(int servers, double arrivals_in_service) {
  const int states = 150;
  std::vector<double> poisson(states), p(states), next(states);
  poisson[0] = std::exp(-arrivals_in_service);
  for (int k = 1; k < states; ++k) poisson[k] = poisson[k - 1] * arrivals_in_service / k;
  p[0] = 1;
  for (int round = 0; round < 800; ++round) {
    std::fill(next.begin(), next.end(), 0);
    for (int n = 0; n < states; ++n) {
      const int left = std::max(0, n - servers);
      for (int k = 0; left + k < states && k < 60; ++k) next[left + k] += p[n] * poisson[k];
    }
    p.swap(next);
  }
  double queue = 0;
  for (int n = servers; n < states; ++n) queue += (n - servers) * p[n];
  return queue;
}

TEST(ServiceWorld, ProcessesWithoutPacingAreMDc) {
  const int servers = 3;
  const double latency_ms = 30, load = 0.8, rate = 1e3 * servers * load / latency_ms;
  const plan::DispatchPolicy policy = full_batches(flat(1, latency_ms), servers);
  const auto out = run({policy, rate, 2e6});
  const double wait_ms = 1e3 * mdc_mean_queue(servers, servers * load) / rate;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli - latency_ms, wait_ms, 0.02 * wait_ms);
}

// The paced queue with one process at the moments when it may dispatch: with X waiting, min(X, B)
// go (one arrival is waited for when X = 0) and Poisson(rate L(b)) join meanwhile. Mean latency by
// renewal reward: waiting time accrues over a cycle, requests leave at its start.
double batch_queue_mean_ms(const profile::BatchCurve& curve, double rate_per_ms) {
  const int states = 200;
  std::vector<std::vector<double>> joining;  // by batch: how many arrive while it holds the entry
  for (int b = 1; b <= curve.max_batch(); ++b) {
    std::vector<double>& p = joining.emplace_back(states);
    const double mean = rate_per_ms * curve.latency(b).value;
    p[0] = std::exp(-mean);
    for (int k = 1; k < states; ++k) p[k] = p[k - 1] * mean / k;
  }
  std::vector<double> p(states), next(states);
  p[0] = 1;
  for (int round = 0; round < 800; ++round) {
    std::fill(next.begin(), next.end(), 0);
    for (int x = 0; x < states; ++x) {
      const int b = std::clamp(x, 1, curve.max_batch());
      for (int k = 0; std::max(0, x - b) + k < states && k < 80; ++k) {
        next[std::max(0, x - b) + k] += p[x] * joining[b - 1][k];
      }
    }
    p.swap(next);
  }
  double requests = 0, waiting = 0, executing = 0;
  for (int x = 0; x < states; ++x) {
    const int b = std::clamp(x, 1, curve.max_batch());
    const double latency = curve.latency(b).value;
    requests += p[x] * b;
    waiting += p[x] * (std::max(0, x - b) * latency + rate_per_ms * latency * latency / 2);
    executing += p[x] * b * latency;
  }
  return (waiting + executing) / requests;
}

TEST(ServiceWorld, BatchesOfAnySizeMatchTheEmbeddedChain) {
  const profile::BatchCurve curve{
      {{1, Millis{4}}, {2, Millis{5}}, {4, Millis{7}}, {8, Millis{11}}}};
  for (const double load : {0.3, 0.6, 0.9}) {
    const double rate_per_ms = load * 8 / 11;
    const double expected = batch_queue_mean_ms(curve, rate_per_ms);
    const auto out = run({paced(curve), rate_per_ms * 1e3});
    EXPECT_NEAR(out.mean_latency / kServiceWorldMilli, expected, 0.02 * expected) << load;
  }
}

TEST(ServiceWorld, PaddedBatchesOnManyProcessesMatchTheEmbeddedChain) {
  // One measured batch size: every batch takes L, the entry L / P, and a process is always free.
  const int processes = 3;
  const double latency_ms = 30, entry_ms = latency_ms / processes,
               rate_per_ms = 0.85 * 6 / entry_ms;
  const auto out = run({paced(flat(6, latency_ms), processes), rate_per_ms * 1e3});
  const double expected =
      batch_queue_mean_ms(flat(6, entry_ms), rate_per_ms) + latency_ms - entry_ms;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli, expected, 0.02 * (expected - latency_ms));
}

TEST(ServiceWorld, FullBatchesWaitForTheirLastRequest) {
  // Far from saturation a request waits for the ones behind it: (B - 1) / (2 rate) on average.
  const double rate = 100, latency_ms = 5;
  const auto out = run({full_batches(flat(16, latency_ms), 8), rate});
  const double expected = latency_ms + 1e3 * 15 / (2 * rate);
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli, expected, 0.02 * expected);
}

TEST(ServiceWorld, WhatIsLeftIsFlushedWhenArrivalsStop) {
  const std::vector<double> times = {0.1, 0.2, 0.3};
  ServiceSpec spec{.arrivals = ArrivalSource::recorded(times),
                   .queues = {{full_batches(flat(2, 50), 1), Rps{10}}},
                   .slo = static_cast<Nanos>(200 * kServiceWorldMilli),
                   .warmup = 0,
                   .end = static_cast<Nanos>(1000 * kServiceWorldMilli)};
  const auto out = ServiceWorld().run(spec);
  EXPECT_EQ(out.offered, 3);
  EXPECT_EQ(out.completed, 3);
  EXPECT_EQ(out.within_slo, 2);  // 150, 50 and 750 ms
  EXPECT_DOUBLE_EQ(out.mean_latency / kServiceWorldMilli, (150 + 50 + 750) / 3.0);
  EXPECT_EQ(out.events, 3 + 2 + 2);
  EXPECT_DOUBLE_EQ(out.activity[0][0], 0.05);  // the flushed batch runs after the window
}

TEST(ServiceWorld, WarmupIsServedButNotCounted) {
  const std::vector<double> times = {0.0, 0.01, 0.5};
  ServiceSpec spec{.arrivals = ArrivalSource::recorded(times),
                   .queues = {{paced(flat(1, 100)), Rps{10}}},
                   .slo = static_cast<Nanos>(100 * kServiceWorldMilli),
                   .warmup = static_cast<Nanos>(150 * kServiceWorldMilli),
                   .end = static_cast<Nanos>(1000 * kServiceWorldMilli)};
  const auto out = ServiceWorld().run(spec);
  EXPECT_EQ(out.offered, 1);
  EXPECT_EQ(out.completed, 1);
  EXPECT_EQ(out.within_slo, 1);
  EXPECT_EQ(out.p99, 100'000'000);
  EXPECT_EQ(out.events, 9);
  EXPECT_DOUBLE_EQ(out.activity[0][0], (50.0 + 100.0) / 850.0);  // 150..200 and 500..600 ms
}

TEST(ServiceWorld, TheRouterMakesTwoEqualInstancesOneMD2Queue) {
  // It knows what work is left everywhere, and with constant service times that is all there is.
  const double latency_ms = 10, load = 0.8, rate = 2e3 * load / latency_ms;
  ServiceSpec spec{
      .arrivals = ArrivalSource::poisson(Rps{rate}, Rng(9)),
      .queues = {{paced(flat(1, latency_ms)), Rps{100}}, {paced(flat(1, latency_ms)), Rps{100}}},
      .slo = kForever,
      .warmup = 0,
      .end = static_cast<Nanos>(1e6 / rate * kNanosPerSecond)};
  const auto out = ServiceWorld().run(spec);
  EXPECT_EQ(out.offered, out.completed);
  const double wait_ms = 1e3 * mdc_mean_queue(2, 2 * load) / rate;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli - latency_ms, wait_ms, 0.02 * wait_ms);
}

TEST(ServiceWorld, TheRouterCountsEntryWorkPerProcess) {
  // The second request finds the four-process entry busy for 9 ms more: 9 + 10 beats an idle 20.
  const std::vector<double> times = {0, 0.001};
  ServiceSpec spec{.arrivals = ArrivalSource::recorded(times),
                   .queues = {{paced(flat(1, 40), 4), Rps{100}}, {paced(flat(1, 16), 1), Rps{50}}},
                   .slo = kForever,
                   .warmup = 0,
                   .end = static_cast<Nanos>(100 * kServiceWorldMilli)};
  const auto out = ServiceWorld().run(spec);
  EXPECT_DOUBLE_EQ(out.mean_latency / kServiceWorldMilli, (40 + 49) / 2.0);
  EXPECT_EQ(out.activity[1][0], 0);
}

// Ten processes of 13.3 ms: a pace of 1.33 ms. Timers that are 0.3 ms late on average would cost a
// fifth of the capacity, and the queue would grow without end, if every pace counted from the late
// wake-up.
TEST(ServiceWorld, LateTimersDoNotCostCapacity) {
  for (const bool pooled : {false, true}) {
    const plan::PoolMember member{flat(1, 13.3), 10};
    const Nanos slo = static_cast<Nanos>(40 * kServiceWorldMilli);
    const double rate = 0.85 * 10 / 13.3e-3;
    ServiceSpec spec{.arrivals = ArrivalSource::poisson(Rps{rate}, Rng(3)),
                     .queues = {{pooled ? plan::pooled_policy({member}, slo)
                                        : plan::paced_policy(member.curve, member.processes),
                                 Rps{rate}}},
                     .slo = slo,
                     .warmup = 0,
                     .end = static_cast<Nanos>(300'000 / rate * kNanosPerSecond),
                     .mean_lateness = static_cast<Nanos>(0.3 * kServiceWorldMilli)};
    const auto out = ServiceWorld().run(spec);
    EXPECT_GE(static_cast<double>(out.within_slo), 0.99 * static_cast<double>(out.offered));
    EXPECT_NEAR(out.activity[0][0], 0.85, 0.01);
  }
}

// M/D/1 with batches of one at half load: a request that comes while the process is busy waits for
// it, one that comes to an idle system does not; a random split of two queues is two such systems.
TEST(ServiceWorld, RandomRoutingMakesIndependentQueues) {
  const double latency_ms = 10, load = 0.7;
  ServiceSpec spec{
      .arrivals = ArrivalSource::poisson(Rps{2e3 * load / latency_ms}, Rng(4)),
      .queues = {{paced(flat(1, latency_ms)), Rps{1}}, {paced(flat(1, latency_ms)), Rps{1}}},
      .slo = kForever,
      .warmup = 0,
      .end = static_cast<Nanos>(1e6 * latency_ms / 2e3 / load * kNanosPerSecond),
      .routing = Routing::random,
      .rng = Rng(6)};
  const auto out = ServiceWorld().run(spec);
  const double wait_ms = load / (2 * (1 - load)) * latency_ms;
  EXPECT_NEAR(out.mean_latency / kServiceWorldMilli - latency_ms, wait_ms, 0.03 * wait_ms);
}

TEST(ServiceWorld, RunsDoNotInfluenceEachOther) {
  const Load load{paced(flat(4, 10), 2), 300, 1e4};
  ServiceSpec spec{.arrivals = ArrivalSource::poisson(Rps{load.rate}, Rng(load.seed)),
                   .queues = {{load.policy, Rps{100}}},
                   .slo = kForever,
                   .warmup = 0,
                   .end = static_cast<Nanos>(load.requests / load.rate * kNanosPerSecond)};
  ServiceSpec other = spec;
  other.queues.push_back({paced(flat(1, 500)), Rps{2}});
  ServiceWorld world;
  world.run(other);
  const auto again = world.run(spec), fresh = run(load);
  EXPECT_EQ(again.log_hash, fresh.log_hash);
  EXPECT_EQ(again.p99, fresh.p99);
  EXPECT_EQ(again.mean_latency, fresh.mean_latency);
  EXPECT_EQ(again.events, fresh.events);
}

}  // namespace
}  // namespace partita::sim
