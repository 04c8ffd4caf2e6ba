#include "lanes/kernel_cursor.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// Two streams that each go their way have their own kernels' lanes in whichever order they launch.
TEST(KernelCursor, EveryStreamHasItsOwn) {
  KernelCursor cursor({{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}}, 9);
  std::vector<int> order{0, 0, 1, 1};  // streams: a then b, c then d
  do {
    const char* rest[] = {"ab", "cd"};
    for (const int stream : order) {
      const std::string kernel(1, *rest[stream]++);
      const auto key = static_cast<std::uint64_t>(stream);
      EXPECT_EQ(cursor.lane_of(kernel, {}, key), std::size_t(kernel[0] - 'a' + 1));
    }
    cursor.request_ended();
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(cursor.unknown(), 0u);
  // Kernels of one name: each step is one launch's.
  KernelCursor same({{"a", 1}, {"a", 2}, {"a", 3}, {"a", 4}}, 9);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(same.lane_of("a", {}, i % 2), i + 1);
  EXPECT_EQ(same.lane_of("a", {}, 1), 9u);
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
