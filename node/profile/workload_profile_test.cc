#include "profile/workload_profile.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

namespace partita::profile {
namespace {

ProfilePoint point(int gpcs, int processes, int batch, double latency_ms) {
  return {gpcs, batch, processes, Rps{1000.0 * batch * processes / latency_ms}, Millis{latency_ms},
          {}};
}

WorkloadProfile sample() {
  return {"m",
          {point(1, 1, 1, 5), point(1, 1, 2, 9), point(1, 1, 4, 8), point(1, 1, 8, 20),
           point(1, 2, 1, 7), point(2, 1, 1, 3), point(2, 1, 2, 3), point(2, 1, 4, 6)}};
}

TEST(BatchCurve, PadsToTheCheapestBatchThatHoldsTheRequests) {
  const BatchCurve curve = batch_curve(sample(), 1, 1, 8);
  EXPECT_EQ(curve.max_batch(), 8);
  EXPECT_EQ(curve.latency(1), Millis{5});
  EXPECT_EQ(curve.latency(2), Millis{8});  // batch 2 measured 9 ms, batch 4 only 8
  EXPECT_EQ(curve.latency(4), Millis{8});
  EXPECT_EQ(curve.latency(5), Millis{20});
  EXPECT_EQ(curve.latency(8), Millis{20});
}

TEST(BatchCurve, EndsAtTheBatchAskedForAndStaysInItsSizeAndProcesses) {
  EXPECT_EQ(batch_curve(sample(), 1, 1, 2).latency(2), Millis{9});
  EXPECT_EQ(batch_curve(sample(), 2, 1, 4).latency(1), Millis{3});
  EXPECT_EQ(batch_curve(sample(), 1, 2, 1).steps.size(), 1u);
  EXPECT_TRUE(batch_curve(sample(), 1, 1, 3).steps.empty());
  EXPECT_TRUE(batch_curve(sample(), 1, 3, 1).steps.empty());
  EXPECT_TRUE(batch_curve(sample(), 9, 1, 1).steps.empty());
  EXPECT_TRUE(batch_curve({}, 1, 1, 1).steps.empty());
}

RC_GTEST_PROP(BatchCurve, AgreesWithTheMinimumOverAllLargerBatches, ()) {
  const auto latencies =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 100)));
  WorkloadProfile profile{"m", {}};
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    profile.points.push_back(point(1, 1, 1 + 3 * static_cast<int>(i), latencies[i]));
  }
  const int max_batch = profile.points.back().batch;
  const BatchCurve curve = batch_curve(profile, 1, 1, max_batch);
  RC_ASSERT(curve.max_batch() == max_batch);
  for (int n = 1; n <= max_batch; ++n) {
    Millis least{std::numeric_limits<double>::infinity()};
    for (const ProfilePoint& p : profile.points) {
      if (p.batch >= n) least = std::min(least, p.latency);
    }
    RC_ASSERT(curve.latency(n) == least);
  }
}

// Two processes with batches of 8: 3 ms by the latency column, 16 / 5000 s by the throughput.
TEST(BatchTime, IsTheSlowerOfLatencyAndThroughput) {
  const ProfilePoint rounded{1, 8, 2, Rps{5000}, Millis{3}, {}};
  EXPECT_DOUBLE_EQ(batch_time(rounded).value, 3.2);
  EXPECT_EQ(batch_curve({"m", {rounded}}, 1, 2, 8).latency(1), batch_time(rounded));
  EXPECT_EQ(batch_time({1, 8, 2, Rps{6000}, Millis{3}, {}}), Millis{3});
  EXPECT_EQ(batch_time(point(1, 3, 7, 0.7)), Millis{0.7});
}

TEST(FindPoint, FindsExactlyTheKeysAsked) {
  const WorkloadProfile profile = sample();
  ASSERT_NE(find_point(profile, 1, 4, 1), nullptr);
  EXPECT_EQ(find_point(profile, 1, 4, 1)->latency, Millis{8});
  EXPECT_EQ(find_point(profile, 1, 3, 1), nullptr);
  EXPECT_EQ(find_point(profile, 2, 1, 2), nullptr);
  EXPECT_EQ(find_point({}, 1, 1, 1), nullptr);
}

}  // namespace
}  // namespace partita::profile
