#include "server/allocations.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// Byte by byte: of ranges beside each other, some of them on their way out.
TEST(Allocations, MeetWhatHasAByteOfIt) {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    Allocations all;
    std::vector<Allocations::Meets> of_byte(100, Allocations::Meets::nothing);
    for (std::uint64_t at = rng.below(9); at < 90;) {
      const std::uint64_t bytes = 1 + rng.below(10);
      const bool going = rng.below(3) == 0;
      all.add(at, bytes);
      if (going) {
        EXPECT_EQ(all.leave(at), bytes);
      }
      for (std::uint64_t i = at; i < at + bytes; ++i)
        of_byte[i] = going ? Allocations::Meets::going : Allocations::Meets::live;
      at += bytes + rng.below(4);
    }
    for (std::uint64_t at = 0; at < 100; ++at)
      for (std::uint64_t end = at + 1; end <= 100; ++end) {
        auto most = Allocations::Meets::nothing;
        for (std::uint64_t i = at; i < end; ++i) most = std::max(most, of_byte[i]);
        ASSERT_EQ(all.meets(at, end - at), most) << at << " to " << end << " round " << round;
      }
  }
}

TEST(Allocations, GoOnceAndGlobalsWithTheirModule) {
  Allocations all;
  all.add(100, 10);
  all.add(200, 20, 7), all.add(300, 30, 8);
  EXPECT_EQ(all.leave(101), std::nullopt);
  EXPECT_EQ(all.leave(200), std::nullopt) << "a global";
  EXPECT_TRUE(all.holds(100, 10));
  EXPECT_EQ(all.leave(100), 10u);
  EXPECT_EQ(all.leave(100), std::nullopt);
  EXPECT_FALSE(all.holds(100, 10));
  EXPECT_TRUE(all.holds(100, 0)) << "nothing is anywhere";
  all.remove(100);
  all.remove_of(7);
  EXPECT_FALSE(all.holds(200, 1));
  EXPECT_TRUE(all.holds(300, 30) && all.holds(329, 1));
  EXPECT_FALSE(all.holds(330, 1) || all.holds(299, 1) || all.holds(300, 31));
  EXPECT_EQ(all.ranges().size(), 1u);
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
