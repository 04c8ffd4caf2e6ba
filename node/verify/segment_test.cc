#include "verify/segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "base/rng.h"
#include "plan/dispatcher.h"

namespace partita::verify {
namespace {

using profile::BatchCurve;

BatchCurve segment_affine_curve(int max_batch, double fixed_ms, double each_ms) {
  BatchCurve curve;
  for (int b = 1; b <= max_batch; b *= 2)
    curve.steps.push_back({b, Millis{fixed_ms + each_ms * b}});
  return curve;
}

// The percentile when the real dispatcher, the one that the gateway runs, is driven event by event.
double simulated(const Segment& segment, int requests, double percentile) {
  plan::Dispatcher batcher(plan::paced_policy(segment.curve, segment.processes));
  Rng rng(4);
  std::vector<double> sojourns;
  std::queue<plan::Nanos> waiting;
  std::priority_queue<plan::Nanos, std::vector<plan::Nanos>, std::greater<>> running;
  const auto gap = [&] {
    return static_cast<plan::Nanos>(1e9 * rng.exponential() / segment.load.value);
  };
  plan::Nanos arrival = gap();
  plan::Nanos wake = plan::kForever;
  while (static_cast<int>(sojourns.size()) < requests) {
    const plan::Nanos end = running.empty() ? plan::kForever : running.top();
    const plan::Nanos now = std::min({arrival, end, wake});
    if (now == end) {
      running.pop();
      batcher.complete(0);
    } else if (now == arrival) {
      batcher.arrive(now);
      waiting.push(now);
      arrival += gap();
    }
    plan::Dispatcher::Decision decision = batcher.step(now);
    for (; decision.dispatch > 0; decision = batcher.step(now)) {
      running.push(now + decision.duration);
      for (int i = 0; i < decision.dispatch; ++i, waiting.pop())
        sojourns.push_back(static_cast<double>(now + decision.duration - waiting.front()) / 1e6);
    }
    wake = decision.wake_at;
  }
  const auto place = sojourns.begin() + static_cast<long>(requests * percentile / 100);
  std::ranges::nth_element(sojourns, place);
  return *place;
}

// Batches that take very differently long on several processes: the pace alone is up to a third
// too rosy here, the judge is not.
TEST(Segment, AgreesWithTheRealDispatcher) {
  const std::vector<Segment> segments = {{segment_affine_curve(32, 5, 0.9), 2, Rps{947}},
                                         {segment_affine_curve(32, 5, 0.9), 3, Rps{1420}},
                                         {segment_affine_curve(8, 4, 1), 3, Rps{1200}},
                                         {segment_affine_curve(8, 4, 1), 1, Rps{400}},
                                         {segment_affine_curve(128, 10, 0.5), 2, Rps{2700}}};
  int beyond_the_pace = 0;
  for (const Segment& segment : segments) {
    const PacedQueue queue(segment.curve, segment.processes, segment.load);
    const double right = simulated(segment, 300'000, 99);
    EXPECT_TRUE(meets(segment, queue, Millis{right * 1.02}, 99)) << segment.load.value;
    EXPECT_FALSE(meets(segment, queue, Millis{right * 0.98}, 99)) << segment.load.value;
    EXPECT_NEAR(latency(segment, queue, 99).value, right, 0.07 * right);
    beyond_the_pace += queue.latency(99).value < 0.9 * right;
  }
  EXPECT_GE(beyond_the_pace, 2);
}

TEST(Segment, OneProcessIsThePacedQueueExactly) {
  const Segment segment{segment_affine_curve(16, 3, 1), 1, Rps{500}};
  const PacedQueue queue(segment.curve, 1, segment.load);
  const double right = queue.latency(95).value;
  EXPECT_TRUE(meets(segment, queue, Millis{right}, 95));
  EXPECT_FALSE(meets(segment, queue, Millis{right * 0.999}, 95));
  EXPECT_EQ(latency(segment, queue, 95).value, right);
}

TEST(Segment, AnUnstableQueueMeetsNothing) {
  const Segment segment{segment_affine_curve(16, 3, 1), 3, Rps{1e6}};
  const PacedQueue queue(segment.curve, 3, segment.load);
  EXPECT_FALSE(meets(segment, queue, Millis{1e9}, 1));
  EXPECT_TRUE(std::isinf(latency(segment, queue, 99).value));
}

}  // namespace
}  // namespace partita::verify
