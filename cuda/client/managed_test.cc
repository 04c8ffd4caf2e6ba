#include "client/managed.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

namespace partita::remote::client {
namespace {

// Where nothing lies at the moment.
std::uint64_t free_pages(std::uint64_t pages) {
  void* const found =
      ::mmap(nullptr, pages * kHostPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(found, pages * kHostPage);
  return reinterpret_cast<std::uint64_t>(found);
}

std::byte* at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

// A device beside the program: what one side changes in its turn, the other sees in its own.
TEST(Managed, BothSidesSeeWhatTheOtherWroteInTurns) {
  const std::uint64_t base = free_pages(16);
  const std::vector<Block> ranges = {{base, 3 * kHostPage},
                                     {base + 5 * kHostPage + 100, 50},
                                     {base + 5 * kHostPage + 4000, 5000},
                                     {base + 9 * kHostPage, 1}};
  Managed managed;
  std::vector<std::byte> device(16 * kHostPage), wanted(16 * kHostPage);
  for (const Block& range : ranges) ASSERT_TRUE(managed.map(range));
  std::mt19937 rng(1);
  const auto write = [&](std::byte* memory, std::uint64_t offset) {
    memory[offset] = wanted[offset] = static_cast<std::byte>(rng());
  };
  for (int turn = 0; turn < 300; ++turn) {
    const Block& range = ranges[rng() % ranges.size()];
    for (int i = 0; i < 5; ++i) write(at(base), range.address - base + rng() % range.bytes);
    for (const Block& change : managed.take_changes()) {
      const auto bytes = managed.bytes(change);
      std::memcpy(device.data() + (change.address - base), bytes.data(), bytes.size());
    }
    EXPECT_TRUE(managed.take_changes().empty());
    for (const Block& one : ranges) {
      EXPECT_EQ(std::memcmp(&device[one.address - base], &wanted[one.address - base], one.bytes),
                0);
      write(device.data(), one.address - base + rng() % one.bytes);
    }
    for (const Block& one : ranges)
      managed.give(one.address, {&device[one.address - base], one.bytes});
    for (const Block& one : ranges)
      ASSERT_EQ(std::memcmp(at(one.address), &wanted[one.address - base], one.bytes), 0);
  }
}

// Memory of the program's own: the device is given all of it first. Where both change a byte, the
// program's stays, and it is said.
TEST(Managed, MemoryOfTheProgramIsAdopted) {
  Managed managed;
  constexpr std::uint64_t kDevice = 0x1234;
  std::vector<std::byte> host(6000, std::byte{3}), device(6000);
  managed.adopt({kDevice, host.size()}, host.data());
  ASSERT_EQ(managed.take_changes(), (std::vector<Block>{{kDevice, host.size()}}));
  EXPECT_EQ(managed.bytes({kDevice + 10, 1})[0], std::byte{3});
  device = host;
  device[5] = std::byte{7}, host[5000] = std::byte{8};
  EXPECT_TRUE(managed.give(kDevice, device));
  EXPECT_EQ(host[5], std::byte{7});
  EXPECT_EQ(host[5000], std::byte{8});
  device[5000] = std::byte{9};
  EXPECT_FALSE(managed.give(kDevice, device));
  EXPECT_EQ(host[5000], std::byte{8});
  EXPECT_TRUE(managed.unmap(kDevice));
  EXPECT_EQ(host[0], std::byte{3});
}

// Also where it changes before that, to whatever; later changes of such memory can be asked for.
TEST(Managed, AllOfAnAdoptedRangeIsGivenFirst) {
  const std::uint64_t base = free_pages(1);
  Managed managed;
  constexpr std::uint64_t kDevice = 0x5000;
  std::vector<std::byte> host(300, std::byte{0}), device(300, std::byte{9});
  ASSERT_TRUE(managed.map({base, 100}));
  managed.adopt({kDevice, host.size()}, host.data());
  for (std::size_t i = 0; i < host.size(); i += 3) host[i] = std::byte{0xff};
  EXPECT_TRUE(managed.give(kDevice, device));  // of the time before
  EXPECT_EQ(host[1], std::byte{0});
  ASSERT_EQ(managed.take_changes(true), (std::vector<Block>{{kDevice, host.size()}}));
  EXPECT_TRUE(std::ranges::equal(managed.bytes({kDevice, host.size()}), host));
  host[7] = std::byte{1}, at(base)[3] = std::byte{1};
  EXPECT_EQ(managed.take_changes(true, true), (std::vector<Block>{{kDevice + 7, 1}}));
  EXPECT_EQ(managed.take_changes(true), (std::vector<Block>{{base + 3, 1}}));
}

// What lies beside a range on its page is nobody's to send.
TEST(Managed, ChangesAreWholePagesAndNotBeyondTheRange) {
  const std::uint64_t base = free_pages(8);
  Managed managed;
  ASSERT_TRUE(managed.map({base, 2 * kHostPage + 10}));
  at(base)[5] = at(base)[kHostPage] = std::byte{1};
  at(base)[2 * kHostPage + 9] = std::byte{1};
  EXPECT_EQ(managed.take_changes(), (std::vector<Block>{{base, 2 * kHostPage + 10}}));
  at(base)[2 * kHostPage + 10] = std::byte{1};
  EXPECT_TRUE(managed.take_changes().empty());
  at(base)[2 * kHostPage] = std::byte{1};
  EXPECT_EQ(managed.take_changes(), (std::vector<Block>{{base + 2 * kHostPage, 10}}));
  for (const std::uint64_t i : {7, 8, 9, 20}) at(base)[i] = std::byte{2};
  EXPECT_EQ(managed.take_changes(true), (std::vector<Block>{{base + 7, 3}, {base + 20, 1}}));
}

TEST(Managed, WhatTheProgramChangedMeanwhileStaysAChange) {
  const std::uint64_t base = free_pages(1);
  Managed managed;
  ASSERT_TRUE(managed.map({base, 100}));
  at(base)[3] = std::byte{7};
  std::vector<std::byte> device(100, std::byte{9});
  managed.give(base, device);
  EXPECT_EQ(at(base)[3], std::byte{7});
  EXPECT_EQ(at(base)[4], std::byte{9});
  const auto changes = managed.take_changes();
  ASSERT_EQ(changes, (std::vector<Block>{{base, 100}}));
  EXPECT_EQ(managed.bytes(changes[0])[3], std::byte{7});
  EXPECT_EQ(managed.bytes(changes[0])[4], std::byte{9});
}

TEST(Managed, TakesNothingThatIsTheProgramsAndGivesAllBack) {
  const std::uint64_t base = free_pages(8);
  void* const own = ::mmap(at(base + 3 * kHostPage), kHostPage, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_EQ(own, at(base + 3 * kHostPage));
  static_cast<std::byte*>(own)[0] = std::byte{4};
  const auto is_free = [&](std::uint64_t page) {
    return ::madvise(at(base + page * kHostPage), kHostPage, MADV_NORMAL) != 0;
  };
  Managed managed;
  for (const Block& over : {Block{base + 2 * kHostPage, 3 * kHostPage},
                            {base, 4 * kHostPage},
                            {base + 3 * kHostPage + 8, 8},
                            {base + 3 * kHostPage, 2 * kHostPage}})
    EXPECT_FALSE(managed.map(over));
  EXPECT_TRUE(managed.empty());
  for (const std::uint64_t page : {0, 1, 2, 4, 5}) EXPECT_TRUE(is_free(page)) << page;
  EXPECT_EQ(static_cast<std::byte*>(own)[0], std::byte{4});
  ASSERT_TRUE(managed.map({base + 10, 20}));
  ASSERT_TRUE(managed.map({base + 30, 2 * kHostPage}));
  EXPECT_EQ(managed.find(base + 29), (Block{base + 10, 20}));
  EXPECT_EQ(managed.find(base + 30), (Block{base + 30, 2 * kHostPage}));
  EXPECT_EQ(managed.find(base + 30 + 2 * kHostPage), std::nullopt);
  EXPECT_EQ(managed.find(base + 9), std::nullopt);
  EXPECT_FALSE(managed.unmap(base + 11));
  EXPECT_TRUE(managed.unmap(base + 10));
  EXPECT_FALSE(is_free(0));  // the other's, too
  EXPECT_TRUE(managed.unmap(base + 30));
  for (const std::uint64_t page : {0, 1, 2}) EXPECT_TRUE(is_free(page)) << page;
  ::munmap(own, kHostPage);
}

}  // namespace
}  // namespace partita::remote::client
