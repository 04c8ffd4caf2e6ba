#include "profile/share.h"

#include <gtest/gtest.h>

namespace partita::profile {
namespace {

// 1 GPC: 100/s, 40 ms; 3 GPCs: 200/s, 20 ms; 7 GPCs: 400/s, 10 ms; batch 8 on 3 GPCs only.
const WorkloadProfile kModel{"m",
                             {{1, 4, 1, {100}, {40}, Mib{1000}},
                              {3, 4, 1, {200}, {20}, Mib{1200}},
                              {3, 8, 1, {210}, {38}, {}},
                              {7, 4, 1, {400}, {10}, {}}}};

TEST(Share, MeasuredSizesAreKeptAsTheyAre) {
  const WorkloadProfile third = at_share(kModel, 7, 300.0 / 7);
  ASSERT_EQ(third.points.size(), 2u);
  EXPECT_EQ(third.points[0], (ProfilePoint{7, 4, 1, {200}, {20}, Mib{1200}}));
  EXPECT_EQ(third.points[1], (ProfilePoint{7, 8, 1, {210}, {38}, {}}));
  EXPECT_EQ(at_share(kModel, 7, 100).points, (std::vector{kModel.points[3]}));
}

TEST(Share, RatesLieOnTheLineBetweenMeasuredSizes) {
  // 50 % of 7 are 3.5 GPCs, an eighth of the way from 3 to 7: 200 + 200/8, and 50 + 50/8 batches/s.
  const WorkloadProfile half = at_share(kModel, 7, 50);
  ASSERT_EQ(half.points.size(), 1u);
  EXPECT_EQ(half.points[0].gpcs, 7);
  EXPECT_DOUBLE_EQ(half.points[0].throughput.value, 225);
  EXPECT_DOUBLE_EQ(half.points[0].latency.value, 1000 / 56.25);
  EXPECT_FALSE(half.points[0].memory);
  // 20 %: 1.4 GPCs, a fifth of the way from 1 to 3; memory of the greedier one.
  const WorkloadProfile fifth = at_share(kModel, 7, 20);
  ASSERT_EQ(fifth.points.size(), 1u);
  EXPECT_DOUBLE_EQ(fifth.points[0].throughput.value, 120);
  EXPECT_DOUBLE_EQ(fifth.points[0].latency.value, 1000 / 30.0);
  EXPECT_EQ(fifth.points[0].memory, Mib{1200});
}

TEST(Share, BelowTheSmallestSizeNothingIsKnown) {
  EXPECT_TRUE(at_share(kModel, 7, 14).points.empty());
  EXPECT_EQ(at_share(kModel, 7, 100.0 / 7).points.size(), 1u);
}

}  // namespace
}  // namespace partita::profile
