#include "client/arena.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace partita::remote::client {
namespace {

constexpr std::uint64_t kBegin = 0x7000'0000'0000, kMiB = 1 << 20;

ArenaShape fine() {
  return {.begin = kBegin, .bytes = 64 * kMiB, .granule = 256, .quota = 8 * kMiB};
}
ArenaShape coarse() {
  return {.begin = kBegin, .bytes = 256 * kMiB, .granule = 2 * kMiB, .quota = 32 * kMiB};
}

TEST(Arena, EverySizeIsToldExactlyWhereGranulesAreSmall) {
  Arena arena(fine());
  const auto one = arena.allocate(1000);
  ASSERT_TRUE(one && one->range);
  EXPECT_EQ(one->range->address, one->address);
  EXPECT_EQ(one->range->bytes, 1024u);
  EXPECT_EQ(one->address % 512, 0u);
  EXPECT_EQ(arena.find(one->address + 999), (Block{one->address, 1000}));
  EXPECT_FALSE(arena.find(one->address + 1000));
  EXPECT_TRUE(arena.release(one->address, false).known);
  EXPECT_FALSE(arena.release(one->address, false).known);
  EXPECT_FALSE(arena.find(one->address));
}

TEST(Arena, ReservedAddressesCountWhenTheyAreMapped) {
  Arena arena(coarse());
  const std::uint64_t all = arena.free_bytes();
  const auto at = arena.reserve(64 * kMiB, 4 * kMiB);  // more than the quota
  ASSERT_TRUE(at);
  EXPECT_EQ(*at % (4 * kMiB), 0u);
  EXPECT_EQ(arena.free_bytes(), all);
  EXPECT_FALSE(arena.reserve(3, 0));
  EXPECT_FALSE(arena.map({*at, 34 * kMiB})) << "over the quota";
  EXPECT_FALSE(arena.map({*at + 62 * kMiB, 4 * kMiB})) << "over the end";
  EXPECT_TRUE(arena.map({*at + 2 * kMiB, 4 * kMiB}));
  EXPECT_FALSE(arena.map({*at, 4 * kMiB})) << "into what is mapped";
  EXPECT_FALSE(arena.map({*at + 4 * kMiB, 2 * kMiB}));
  EXPECT_EQ(arena.free_bytes(), all - 4 * kMiB);
  EXPECT_EQ(arena.find(*at + 3 * kMiB), (Block{*at + 2 * kMiB, 4 * kMiB}));
  EXPECT_FALSE(arena.release(*at + 2 * kMiB, false).known) << "it is not cudaFree's";
  EXPECT_FALSE(arena.unreserve(*at, 64 * kMiB));
  EXPECT_FALSE(arena.unmap({*at + 2 * kMiB, 2 * kMiB}));
  EXPECT_TRUE(arena.unmap({*at + 2 * kMiB, 4 * kMiB}));
  EXPECT_TRUE(arena.unreserve(*at, 64 * kMiB));
  EXPECT_FALSE(arena.unreserve(*at, 64 * kMiB));
  EXPECT_EQ(arena.free_bytes(), all);
}

TEST(Arena, WhatIsSetAsideIsNotForBlocks) {
  Arena arena(fine());
  EXPECT_FALSE(arena.set_aside(8 * kMiB + 1));
  EXPECT_TRUE(arena.set_aside(7 * kMiB));
  EXPECT_EQ(arena.free_bytes(), kMiB);
  EXPECT_FALSE(arena.allocate(2 * kMiB));
  EXPECT_TRUE(arena.set_aside(6 * kMiB));
  EXPECT_TRUE(arena.allocate(2 * kMiB));
  EXPECT_FALSE(arena.set_aside(7 * kMiB)) << "a block has it";
  EXPECT_TRUE(arena.set_aside(0));
  EXPECT_EQ(arena.free_bytes(), 6 * kMiB);
}

TEST(Arena, BehindABlockLiesNothing) {
  Arena arena(fine());
  const std::uint64_t first = arena.allocate(512)->address, second = arena.allocate(512)->address;
  EXPECT_GE(second, first + 512 + 256);
}

TEST(Arena, SmallBlocksShareALargeGranule) {
  Arena arena(coarse());
  const auto first = arena.allocate(100);
  ASSERT_TRUE(first && first->range);
  EXPECT_EQ(first->range->bytes, 2 * kMiB);
  for (int i = 0; i < 4095; ++i) EXPECT_FALSE(arena.allocate(100)->range) << i;
  EXPECT_TRUE(arena.allocate(100)->range);  // the 4097th
  EXPECT_EQ(arena.free_bytes(), 28 * kMiB);
  EXPECT_FALSE(arena.release(first->address, false).range);  // the others still use it
}

TEST(Arena, TheQuotaHoldsAndComesBack) {
  Arena arena(coarse());
  const auto most = arena.allocate(32 * kMiB);
  ASSERT_TRUE(most);
  EXPECT_FALSE(arena.allocate(1));
  EXPECT_EQ(arena.free_bytes(), 0u);
  EXPECT_EQ(arena.release(most->address, false).range, (Block{most->address, 32 * kMiB}));
  EXPECT_TRUE(arena.allocate(32 * kMiB));
  EXPECT_FALSE(Arena(coarse()).allocate(33 * kMiB));
  EXPECT_FALSE(Arena(coarse()).allocate(~std::uint64_t{0}));
  EXPECT_FALSE(Arena(coarse()).allocate(0));
}

TEST(Arena, AFreedAddressComesBackLate) {
  Arena arena(fine());
  const std::uint64_t first = arena.allocate(kMiB)->address;
  arena.release(first, false);
  for (int i = 0; i < 62; ++i) {  // 64 MiB, and a gap behind each
    const std::uint64_t next = arena.allocate(kMiB)->address;
    EXPECT_NE(next, first) << i;
    arena.release(next, false);
  }
  EXPECT_EQ(arena.allocate(kMiB)->address, first);  // once around
}

TEST(Arena, WhatIsFreedLateWaitsForRecycle) {
  ArenaShape shape = fine();
  shape.bytes = 4 * (kMiB + Arena::kPage);
  Arena arena(shape);
  std::uint64_t all[4];
  for (std::uint64_t& one : all) one = arena.allocate(kMiB)->address;
  arena.release(all[2], true);
  EXPECT_EQ(arena.free_bytes(), 5 * kMiB);
  EXPECT_FALSE(arena.allocate(kMiB));  // no address
  EXPECT_EQ(arena.late(), 1u);
  arena.recycle(1);
  EXPECT_EQ(arena.allocate(kMiB)->address, all[2]);
}

// Against a list of blocks: none overlaps another, all lie in ranges that were told, and what is
// free is what is not used.
TEST(Arena, NothingOverlapsInALongLife) {
  for (const ArenaShape& shape : {fine(), coarse()}) {
    Arena arena(shape);
    Rng random(7);
    std::vector<Block> blocks;
    std::map<std::uint64_t, std::uint64_t> ranges;
    for (int step = 0; step < 4000; ++step) {
      if (blocks.empty() || random.below(5) < 3) {
        const std::uint64_t bytes = 1 + random.below(random.below(8) == 0 ? 3 * kMiB : 5000);
        const std::uint64_t align = random.below(6) == 0 ? 4096 : 0;
        const auto given = arena.allocate(bytes, align);
        if (!given) continue;
        ASSERT_TRUE(align == 0 || (given->address % align == 0 && given->range));
        if (given->range) ranges[given->range->address] = given->range->bytes;
        for (const Block& other : blocks)
          ASSERT_TRUE(given->address + bytes <= other.address ||
                      other.address + other.bytes <= given->address);
        const auto range = std::prev(ranges.upper_bound(given->address));
        ASSERT_LE(given->address + bytes, range->first + range->second);
        blocks.push_back({given->address, bytes});
      } else {
        const std::size_t which = random.below(blocks.size());
        const auto taken = arena.release(blocks[which].address, random.below(2) == 0);
        ASSERT_TRUE(taken.known);
        EXPECT_EQ(taken.block, blocks[which]);
        if (taken.range) ranges.erase(taken.range->address);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
        if (random.below(50) == 0) arena.recycle(arena.late());
      }
    }
    EXPECT_EQ(arena.blocks(), blocks.size());
  }
}

}  // namespace
}  // namespace partita::remote::client
