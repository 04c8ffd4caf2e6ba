#include "lanes/kernel_cursor.h"

#include <gtest/gtest.h>

namespace partita::lanes {
namespace {

TEST(KernelCursor, FollowsTheRequestAndFindsItsWayBack) {
  KernelCursor cursor({{"a", 1}, {"b", 2}, {"a", 3}, {"c", 4}}, 9);
  EXPECT_EQ(cursor.lane_of("a"), 1u);
  EXPECT_EQ(cursor.lane_of("b"), 2u);
  EXPECT_EQ(cursor.lane_of("memset"), 9u);
  EXPECT_EQ(cursor.lane_of("a"), 3u);
  EXPECT_EQ(cursor.lane_of("b"), 9u);  // comes no more in this request
  EXPECT_EQ(cursor.unknown(), 2u);
  cursor.request_ended();
  EXPECT_EQ(cursor.lane_of("b"), 2u);  // the first a was left out
  EXPECT_EQ(cursor.lane_of("c"), 4u);
  EXPECT_EQ(cursor.lane_of("c"), 9u);
}

TEST(KernelCursor, TellsShapesApart) {
  KernelCursor cursor({{"a 8x1x1 64x1x1", 1}, {"a 4x1x1 64x1x1", 2}, {"b", 3}}, 9);
  EXPECT_TRUE(cursor.by_shape());
  EXPECT_EQ(cursor.lane_of("a", "8x1x1 64x1x1"), 1u);
  EXPECT_EQ(cursor.lane_of("a", "8x1x1 64x1x1"), 9u);
  EXPECT_EQ(cursor.lane_of("a", "4x1x1 64x1x1"), 2u);
  EXPECT_EQ(cursor.lane_of("b", "1x1x1 1x1x1"), 3u);
}

}  // namespace
}  // namespace partita::lanes
