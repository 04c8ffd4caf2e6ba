#include "control/power_split.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"

namespace partita::control {
namespace {

PowerBoard power_board(bool used, double least = 100, double most = 400) {
  return {.least = least, .most = most, .now = most, .used = used};
}

TEST(PowerSplit, HandValues) {
  // Enough for all: everybody has the most.
  EXPECT_EQ(split_power({power_board(true), power_board(false)}, 1000),
            (std::vector<double>{400, 400}));
  // The one without work gives way first.
  EXPECT_EQ(split_power({power_board(true), power_board(false)}, 600),
            (std::vector<double>{400, 200}));
  EXPECT_EQ(split_power({power_board(true), power_board(true), power_board(false)}, 700),
            (std::vector<double>{300, 300, 100}));
  // Whole watts, never above the cap.
  EXPECT_EQ(split_power({power_board(true), power_board(true)}, 555),
            (std::vector<double>{277, 277}));
  // Not even the least fits: the least.
  EXPECT_EQ(split_power({power_board(true), power_board(false)}, 150),
            (std::vector<double>{100, 100}));
  // What cannot be set counts as it is.
  PowerBoard fixed = power_board(false);
  fixed.fixed = true;
  EXPECT_EQ(split_power({power_board(true), fixed}, 600), (std::vector<double>{200, 400}));
  EXPECT_TRUE(split_power({}, 100).empty());
}

// Within the limits of each board, below the cap, nobody poorer than another of its kind.
TEST(PowerSplit, IsFairAndKeepsTheCap) {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<PowerBoard> boards;
    const int count = 1 + static_cast<int>(rng.below(9));
    double least = 0;
    for (int b = 0; b < count; ++b) {
      const double low = 50 + static_cast<double>(rng.below(100));
      boards.push_back(
          power_board(rng.below(2) == 0, low, low + static_cast<double>(rng.below(500))));
      least += low;
    }
    const double cap = least + static_cast<double>(rng.below(2000));
    const std::vector<double> limits = split_power(boards, cap);
    const double sum = std::accumulate(limits.begin(), limits.end(), 0.0);
    EXPECT_LE(sum, cap);
    const double left = cap - sum;
    for (std::size_t b = 0; b < boards.size(); ++b) {
      EXPECT_GE(limits[b], boards[b].least);
      EXPECT_LE(limits[b], boards[b].most);
      if (limits[b] == boards[b].most) continue;
      EXPECT_LT(left, count + 1) << "watts are left over that board " << b << " could have";
      for (std::size_t other = 0; other < boards.size(); ++other) {
        const bool same = boards[other].used == boards[b].used;
        if (same && limits[other] > boards[other].least) {
          EXPECT_LE(limits[other], limits[b] + 1);
        }
        if (boards[b].used && !boards[other].used) {
          EXPECT_LE(limits[other] - boards[other].least, count + 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace partita::control
