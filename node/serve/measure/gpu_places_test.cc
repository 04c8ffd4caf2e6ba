// Sizes as people write them. What is borrowed and put back on GPUs: tests/devices/measure_test.cc.
#include "serve/measure/gpu_places.h"

#include <gtest/gtest.h>

namespace partita::serve {
namespace {

TEST(GpuPlaces, SizesAsPeopleWriteThem) {
  const std::vector<int> board = {1, 2, 3, 4, 7};
  const auto sizes = [&](const std::string& text) {
    return parse_sizes("--instances", text, board).value_or(std::vector<int>{});
  };
  EXPECT_EQ(sizes("all"), board);
  EXPECT_EQ(sizes("2g,1g"), (std::vector<int>{1, 2}));
  EXPECT_EQ(sizes("7"), std::vector<int>{7});
  EXPECT_EQ(sizes("3..7"), (std::vector<int>{3, 4, 7}));
  EXPECT_EQ(sizes("1,1g,1..2"), (std::vector<int>{1, 2}));
  for (const char* wrong : {"", "5", "1x", "0", "-1", "g", "1,", "5..6", "3..1", "1..g", "8..9"}) {
    const auto read = parse_sizes("--instances", wrong, board);
    ASSERT_FALSE(read) << wrong;
    EXPECT_NE(to_string(read.error()).find("1, 2, 3, 4, 7 compute slices"), std::string::npos);
  }
}

}  // namespace
}  // namespace partita::serve
