// The planner's fast pool (model/pool.h) and the dispatcher that simulator and gateway drive
// (plan/dispatcher.h) are the same policy: equal latencies, request by request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "model/pool.h"
#include "plan/dispatcher.h"

namespace partita::sim {
namespace {

using plan::Nanos;

profile::BatchCurve random_curve(Rng& rng) {
  profile::BatchCurve curve;
  double latency = 1 + 9 * rng.uniform();
  for (int batch = 1 << rng.below(2); batch <= 32; batch *= 2) {
    curve.steps.push_back({batch, Millis{latency}});
    latency *= 1.1 + rng.uniform();
    if (rng.below(4) == 0) break;
  }
  return curve;
}

struct RandomPool {
  model::Pool classes;
  std::vector<plan::PoolMember> members;
};

RandomPool random_pool(Rng& rng) {
  RandomPool pool;
  for (std::uint64_t i = 0, classes = 1 + rng.below(3); i < classes; ++i) {
    const profile::BatchCurve curve = random_curve(rng);
    const int processes = 1 + static_cast<int>(rng.below(3));
    const int instances = 1 + static_cast<int>(rng.below(4));
    pool.classes.push_back({curve, processes * instances});
    pool.members.insert(pool.members.end(), static_cast<std::size_t>(instances),
                        {curve, processes});
  }
  return pool;
}

// Latencies in ms, in the order of arrival.
std::vector<double> driven(const std::vector<plan::PoolMember>& members, Nanos slo,
                           const std::vector<Nanos>& arrivals) {
  struct Running {
    Nanos end;
    int member;
  };
  plan::Dispatcher dispatcher(plan::pooled_policy(members, slo));
  std::vector<Running> running;
  std::vector<double> latencies;
  std::size_t next = 0;
  Nanos wake = plan::kForever;
  while (latencies.size() < arrivals.size()) {
    Nanos now = next < arrivals.size() ? std::min(wake, arrivals[next]) : wake;
    for (const Running& one : running) now = std::min(now, one.end);
    for (const Running& one : running)
      if (one.end == now) dispatcher.complete(one.member);
    std::erase_if(running, [&](const Running& one) { return one.end == now; });
    while (next < arrivals.size() && arrivals[next] == now) dispatcher.arrive(arrivals[next++]);
    plan::Dispatcher::Decision decision = dispatcher.step(now);
    for (; decision.dispatch > 0; decision = dispatcher.step(now)) {
      running.push_back({now + decision.duration, decision.member});
      for (const Nanos arrival : dispatcher.dispatched())
        latencies.push_back(static_cast<double>(now + decision.duration - arrival) / 1e6);
    }
    wake = decision.wake_at;
  }
  return latencies;
}

TEST(PoolAgreement, TheModelIsTheDispatcherRequestByRequest) {
  Rng rng(17);
  for (int round = 0; round < 200; ++round) {
    const RandomPool pool = random_pool(rng);
    const Millis slo{5 + 60 * rng.uniform()};
    const double rate = model::fluid(pool.classes).value * (0.2 + 0.9 * rng.uniform());
    std::vector<Nanos> arrivals;
    double clock = 0;
    constexpr std::size_t kRequests = 1500;
    while (arrivals.size() < kRequests)
      arrivals.push_back(static_cast<Nanos>(clock += 1e9 / rate * rng.exponential()));
    const std::vector<double> expected =
        driven(pool.members, std::llround(slo.value * 1e6), arrivals);

    model::PoolRun run(pool.classes, slo);
    std::size_t next = 0;
    run.arrivals([&] { return next < kRequests ? arrivals[next++] : std::int64_t{1} << 60; });
    run.keep_latencies();
    const model::PoolCount count = run.run(kRequests, kRequests);
    ASSERT_EQ(count.requests, static_cast<long>(kRequests));
    ASSERT_EQ(count.late, std::count_if(expected.begin(), expected.end(),
                                        [&](double latency) {
                                          return std::llround(latency * 1e6) >
                                                 std::llround(slo.value * 1e6);
                                        }))
        << round;
    std::vector<double> sorted = expected;
    std::sort(sorted.begin(), sorted.end());
    for (const std::size_t place : {std::size_t{0}, kRequests / 2, kRequests - 1})
      ASSERT_EQ(run.percentile(100.0 * static_cast<double>(place) / (kRequests - 1)).value,
                sorted[place])
          << round;
  }
}

// Poisson arrivals are dispatched in longer steps than recorded ones.
TEST(PoolAgreement, PoissonArrivalsAreWhatTheirTimesAre) {
  Rng rng(18);
  for (int round = 0; round < 200; ++round) {
    const RandomPool pool = random_pool(rng);
    const Millis slo{5 + 60 * rng.uniform()};
    const Rps rate = model::fluid(pool.classes) * (0.1 + 0.95 * rng.uniform());
    model::UnitPoisson units(round), same(round);
    model::PoolRun drawn(pool.classes, slo), recorded(pool.classes, slo);
    drawn.poisson(rate, units);
    recorded.arrivals([&, next = std::size_t{0}]() mutable {
      return static_cast<std::int64_t>(same.at(next++) * (1e9 / rate.value));
    });
    drawn.keep_latencies();
    recorded.keep_latencies();
    for (const long requests : {1L, 700L, 9'000L}) {
      const model::PoolCount a = drawn.run(requests, requests);
      const model::PoolCount b = recorded.run(requests, requests);
      ASSERT_EQ(a.requests, b.requests) << round;
      ASSERT_EQ(a.late, b.late) << round;
    }
    for (const double percent : {0.0, 50.0, 99.0, 100.0})
      ASSERT_EQ(drawn.percentile(percent), recorded.percentile(percent)) << round;
  }
}

TEST(PoolAgreement, AHurriedRunSaysTheSame) {
  Rng rng(19);
  int held = 0;
  for (int round = 0; round < 100; ++round) {
    const RandomPool pool = random_pool(rng);
    const model::PoolSlo wanted{Millis{15 + 60 * rng.uniform()}, 0.001 + 0.05 * rng.uniform()};
    const Rps rate = model::fluid(pool.classes) * (0.6 + 0.39 * rng.uniform());
    model::PoolTest test{.fewest = 2'000, .most = 20'000};
    const bool whole = model::examine(pool.classes, wanted, rate, test, 99).holds;
    test.hurried = true;
    EXPECT_EQ(model::examine(pool.classes, wanted, rate, test, 99).holds, whole) << round;
    EXPECT_EQ(model::holds(pool.classes, wanted, rate, test), whole) << round;
    held += whole ? 1 : 0;
  }
  EXPECT_GT(held, 10);
  EXPECT_LT(held, 90);
}

// Two small processes and two of 4g with batches of 256, as measured for mobilenetv2 on an A100. In
// step it holds for very long; most seeds, and every stall, bring it into a way of working with 6
// to 10 % late.
TEST(PoolAgreement, APoolOfTwoWaysOfWorkingIsSeenThroughNearSaturation) {
  const auto ms = [](double value) { return Millis{value}; };
  const profile::BatchCurve small{{{1, ms(5)}, {2, ms(5)}, {4, ms(10)}}};
  const profile::BatchCurve large{
      {{8, ms(6)}, {16, ms(12)}, {32, ms(24)}, {64, ms(47)}, {128, ms(95)}, {256, ms(102)}}};
  const model::Pool pool{{small, 2}, {large, 2}};
  const Millis slo{173.277};
  const Rps rate{4952.788};
  int lasting = 0;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    model::UnitPoisson units(seed);
    model::PoolRun run(pool, slo);
    run.poisson(rate, units);
    run.stall(slo);
    run.run(50'000, 50'000);
    lasting += run.run(50'000, 50'000).share() > 0.05 ? 1 : 0;
  }
  EXPECT_EQ(lasting, 5);
  model::PoolTest test{.fewest = 12'000, .most = 200'000};
  EXPECT_TRUE(model::examine(pool, {slo, 0.005}, rate, test, 99).holds);  // a lucky seed
  test.after_stall = 12'000;
  EXPECT_FALSE(model::examine(pool, {slo, 0.005}, rate, test, 99).holds);
}

}  // namespace
}  // namespace partita::sim
