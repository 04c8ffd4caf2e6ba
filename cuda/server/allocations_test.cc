#include "server/allocations.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"

namespace partita::remote::server {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

// Numbers of a client are any: rows whose end lies beyond what 64 bits hold lie nowhere.
TEST(Allocations, RowsThatOverflowLieNowhere) {
  Allocations all;
  all.add(4096, 4096);
  EXPECT_TRUE(all.holds_rows(4096, 64, 64, 64));
  EXPECT_FALSE(all.holds_rows(4096, 64, 64, 65));
  EXPECT_FALSE(all.holds_rows(4096, 64, std::uint64_t{1} << 63, 3));  // 2 x 2^63 is 0
  EXPECT_FALSE(all.holds_rows(4096, 64, std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 1));
  EXPECT_FALSE(all.holds_rows(4096, 64, kMost - 31, 2));  // and 64 more are 32
  EXPECT_FALSE(all.holds_rows(4096, kMost, kMost, kMost));
  EXPECT_FALSE(all.holds(kMost, 2));
  EXPECT_FALSE(all.holds(8191, kMost));
}

// Against wide numbers.
TEST(Allocations, HoldRowsAsWideNumbersSay) {
  Allocations all;
  all.add(1000, 5000);
  Rng rng(3);
  const auto any = [&]() -> std::uint64_t {
    switch (rng.below(4)) {
      case 0:
        return rng.below(8);
      case 1:
        return rng.below(7000);
      case 2:
        return kMost - rng.below(7000);
      default:
        return rng.next() >> rng.below(64);
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t at = any(), width = any(), pitch = any(), rows = any();
    bool lies = width == 0 || rows == 0;
    if (!lies && (rows == 1 || pitch >= width)) {
      const auto wide = [](std::uint64_t number) { return static_cast<unsigned __int128>(number); };
      lies = at >= 1000 && at < 6000 && wide(rows - 1) * pitch + width <= wide(6000 - at);
    }
    EXPECT_EQ(all.holds_rows(at, width, pitch, rows), lies)
        << at << " " << width << " " << pitch << " " << rows;
  }
}

}  // namespace
}  // namespace partita::remote::server
