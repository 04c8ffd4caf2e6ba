#include "verify/paced_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace partita::verify {
namespace {

using profile::BatchCurve;

// Batches 1, 2, 4 ... max_batch; a fixed cost, and one per request.
BatchCurve affine_curve(int max_batch, double fixed_ms, double each_ms) {
  BatchCurve curve;
  for (int b = 1; b <= max_batch; b *= 2)
    curve.steps.push_back({b, Millis{fixed_ms + each_ms * b}});
  return curve;
}

// ---- Poisson ----

TEST(Poisson, TablesAgreeWithTheFormula) {
  for (const double mean : {0.0, 0.3, 1.0, 7.5, 40.0, 250.0}) {
    const Poisson law(mean);
    double tail = 1;
    double excess = mean;  // E[(N - n)^+]
    for (int n = 0; n < 600; ++n) {
      const double p =
          mean == 0 ? (n == 0 ? 1 : 0) : std::exp(n * std::log(mean) - mean - std::lgamma(n + 1.0));
      EXPECT_NEAR(law.at(n), p, 1e-12);
      EXPECT_NEAR(law.tail(n), tail, 1e-12);
      EXPECT_NEAR(law.cdf(n), 1 - tail + p, 1e-12);
      EXPECT_NEAR(law.found_at_least(n), excess, 1e-9 * (1 + mean)) << mean << " " << n;
      tail -= p;
      excess -= tail;
    }
    EXPECT_EQ(law.tail(-3), 1);
    EXPECT_EQ(law.at(-1), 0);
    EXPECT_EQ(law.found_at_least(-2), mean);
  }
}

TEST(Poisson, TablesAgreeWithTheIncompleteGammaFunction) {
  for (const double mean : {0.0, 1e-300, 1e-6, 0.3, 7.5, 20.0, 150.0, 3e3, 2e5}) {
    const Poisson law(mean);
    for (int n = 0; n <= law.last() + 2; ++n) {
      const double exact = poisson_cdf(mean, n);
      ASSERT_NEAR(law.cdf(n), exact, 1e-12 * exact + 1e-14) << mean << " " << n;
    }
  }
}

// ---- closed forms ----

// P(wait > t) of M/D/1 with service time 1 (Crommelin).
double md1_wait_beyond(double load, double t) {
  double below = 0;
  for (int k = 0; k <= static_cast<int>(t); ++k) {
    const double x = load * (t - k);
    below += (k % 2 ? -1 : 1) * std::exp(k * std::log(x) + x - std::lgamma(k + 1.0));
  }
  return 1 - (1 - load) * below;
}

TEST(PacedQueue, OneAtATimeIsTheQueueWithFixedServiceTimes) {
  BatchCurve curve;
  curve.steps = {{1, Millis{1}}};
  for (const double load : {0.1, 0.5, 0.8, 0.9}) {
    const PacedQueue queue(curve, 1, Rps{1000 * load});
    for (const double t : {0.25, 0.5, 1.25, 2.75, 5.5, 9.3}) {
      EXPECT_NEAR(queue.late(Millis{1 + t}), md1_wait_beyond(load, t), 1e-8) << load << " " << t;
      EXPECT_NEAR(queue.late_at_most(Millis{1 + t}), md1_wait_beyond(load, t), 1e-8);
    }
  }
}

// P processes divide the entry time only: same waits on a scale of 1/P, then the whole execution.
TEST(PacedQueue, ProcessesPaceTheEntry) {
  BatchCurve curve;
  curve.steps = {{1, Millis{3}}};
  const PacedQueue queue(curve, 3, Rps{700});
  EXPECT_NEAR(queue.late(Millis{3 + 2.5}), md1_wait_beyond(0.7, 2.5), 1e-8);
}

// A batch so large that nothing is ever left, all sizes equally long: with a = rate x D, an arrival
// waits for the rest of D, uniform, or finds the entry idle; a requests per D, exp(-a) idle ones.
TEST(PacedQueue, EndlessBatchesHaveAClosedForm) {
  BatchCurve curve;
  curve.steps = {{4096, Millis{10}}};
  for (const double per_ms : {0.01, 0.2, 3.0, 60.0}) {
    const PacedQueue queue(curve, 1, Rps{1000 * per_ms});
    const double a = per_ms * 10;
    for (const double wait : {0.0, 2.5, 9.0})
      EXPECT_NEAR(queue.late(Millis{10 + wait}), per_ms * (10 - wait) / (a + std::exp(-a)), 1e-9);
    EXPECT_NEAR(queue.late(Millis{20}), 0, 1e-12);
    EXPECT_NEAR(queue.late(Millis{9.99}), 1, 1e-12);
  }
}

// ---- against a simulation of the policy ----

struct Simulated {
  std::vector<double> sojourns;  // ms, ascending
  double late(double limit) const {
    const auto on_time = std::ranges::upper_bound(sojourns, limit) - sojourns.begin();
    return 1 - static_cast<double>(on_time) / static_cast<double>(sojourns.size());
  }
  double quantile(double share) const {
    return sojourns[static_cast<std::size_t>(share * static_cast<double>(sojourns.size()))];
  }
};

Simulated simulate(const BatchCurve& curve, int processes, double per_ms, std::size_t count) {
  Rng rng(11);
  Simulated result;
  std::deque<double> queue;
  double next = rng.exponential() / per_ms;
  double ready = 0;
  while (result.sojourns.size() < count) {
    if (queue.empty() || next < std::max(ready, queue.front())) {
      queue.push_back(next);
      next += rng.exponential() / per_ms;
      continue;
    }
    const double begin = std::max(ready, queue.front());
    const int batch = std::min(static_cast<int>(queue.size()), curve.max_batch());
    const double duration = curve.latency(batch).value;
    for (int i = 0; i < batch; ++i) {
      result.sojourns.push_back(begin + duration - queue.front());
      queue.pop_front();
    }
    ready = begin + duration / processes;
  }
  std::ranges::sort(result.sojourns);
  return result;
}

struct SimulatedCase {
  BatchCurve curve;
  int processes;
  double utilisation;
};

TEST(PacedQueue, AgreesWithASimulationOfThePolicy) {
  BatchCurve steep;  // a jump of four between neighbours
  steep.steps = {{2, Millis{5}}, {3, Millis{20}}, {8, Millis{22}}};
  const std::vector<SimulatedCase> cases = {
      {affine_curve(2, 5, 1), 1, 0.6},   {affine_curve(8, 4, 1), 2, 0.5},
      {affine_curve(8, 4, 1), 3, 0.8},   {steep, 1, 0.7},
      {affine_curve(32, 3, 1), 1, 0.85}, {affine_curve(128, 10, 0.5), 3, 0.8},
      {affine_curve(16, 9, 0.1), 2, 0.3}};
  for (const SimulatedCase& c : cases) {
    const double rps = c.utilisation * PacedQueue::saturation(c.curve, c.processes).value;
    const Simulated simulated = simulate(c.curve, c.processes, rps / 1000, 200'000);
    const PacedQueue queue(c.curve, c.processes, Rps{rps});
    for (const double share : {0.5, 0.9, 0.98}) {
      const double limit = simulated.quantile(share);
      EXPECT_NEAR(queue.late(Millis{limit}), simulated.late(limit), 0.08 * (1 - share))
          << c.curve.max_batch() << " " << c.processes << " " << share;
    }
  }
}

// ---- consistency ----

TEST(PacedQueue, TheBoundHoldsAndTheLatencyInvertsTheShare) {
  for (const int max_batch : {1, 2, 8, 64}) {
    for (const int processes : {1, 3}) {
      for (const double utilisation : {0.05, 0.4, 0.9, 0.98}) {
        const BatchCurve curve = affine_curve(max_batch, 6, 0.5);
        const double rps = utilisation * PacedQueue::saturation(curve, processes).value;
        const PacedQueue queue(curve, processes, Rps{rps});
        ASSERT_TRUE(queue.stable());
        double before = 1;
        for (double limit = 3; limit < 300; limit *= 1.07) {
          const double late = queue.late(Millis{limit});
          EXPECT_LE(late, queue.late_at_most(Millis{limit}) + 1e-12);
          EXPECT_LE(late, before + 1e-9);
          EXPECT_GE(late, -1e-12);
          before = late;
        }
        for (const double percentile : {50.0, 95.0, 99.9}) {
          const double latency = queue.latency(percentile).value;
          EXPECT_TRUE(queue.within(Millis{latency}, percentile));
          EXPECT_FALSE(queue.within(Millis{latency * 0.999}, percentile));
        }
      }
    }
  }
}

TEST(PacedQueue, MoreLoadIsMoreLate) {
  const BatchCurve curve = affine_curve(16, 5, 1);
  const double saturation = PacedQueue::saturation(curve, 2).value;
  EXPECT_DOUBLE_EQ(saturation, 2 * 16 / 0.021);
  double before = 0;
  for (const double utilisation : {0.2, 0.5, 0.7, 0.9, 0.99, 0.998}) {
    const double latency = PacedQueue(curve, 2, Rps{utilisation * saturation}).latency(99).value;
    EXPECT_GT(latency, before);
    before = latency;
  }
}

TEST(PacedQueue, AtOrBeyondSaturationEveryRequestIsLate) {
  const BatchCurve curve = affine_curve(4, 5, 1);
  const double saturation = PacedQueue::saturation(curve, 1).value;
  for (const double load :
       {saturation, 2 * saturation, saturation * (1 - 1e-9), 1e300,
        std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const PacedQueue queue(curve, 1, Rps{load});
    EXPECT_FALSE(queue.stable()) << load;
    EXPECT_EQ(queue.late(Millis{1e9}), 1);
    EXPECT_FALSE(queue.within(Millis{1e9}, 50));
    EXPECT_TRUE(std::isinf(queue.latency(50).value));
  }
}

// Nothing about the size of a rate or a batch may break the tables.
TEST(PacedQueue, ExtremesStayFinite) {
  for (const int max_batch : {1, 1024, 65536}) {
    for (const double utilisation : {1e-12, 0.01, 0.5, 0.95}) {
      const BatchCurve curve = affine_curve(max_batch, 1e-3, 1e-3);
      const double rps = utilisation * PacedQueue::saturation(curve, 1).value;
      const PacedQueue queue(curve, 1, Rps{rps});
      const double late = queue.late(Millis{curve.steps.back().latency.value * 4});
      const double most = max_batch == 1 ? 1 : 1e-3;
      EXPECT_TRUE(late >= -1e-9 && late <= most) << max_batch << " " << utilisation << " " << late;
    }
  }
}

}  // namespace
}  // namespace partita::verify
