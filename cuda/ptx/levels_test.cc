// Every op of every level against the baseline's, on edge values and under partial masks.
#include "ptx/levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"

namespace partita::ptx {
namespace {

constexpr std::size_t kSlots = 16, kSlotBytes = 256;

struct Registers {
  alignas(64) std::byte bytes[kSlots * kSlotBytes];
};

void fill(Registers& registers, Rng& rng, const std::string& name) {
  static const std::uint32_t kFloats[] = {0,           0x80000000u, 1,           0x007fffffu,
                                          0x3f800000u, 0xbf800000u, 0x40490fdbu, 0x7f7fffffu,
                                          0x7f800000u, 0xff800000u, 0x7fc00000u, 0x4f000000u};
  static const std::uint64_t kDoubles[] = {0,
                                           1,
                                           0x3ff0000000000000u,
                                           0xbff8000000000000u,
                                           0x41e0000000000000u,
                                           0xc3e0000000000000u,
                                           0x7fefffffffffffffu,
                                           0x7ff0000000000000u,
                                           0x7ff8000000000000u,
                                           0x40effe0000000000u};
  static const std::uint64_t kIntegers[] = {0,
                                            1,
                                            2,
                                            31,
                                            32,
                                            63,
                                            64,
                                            255,
                                            0x7fff,
                                            0x8000,
                                            0x7fffffffu,
                                            0x80000000u,
                                            0xffffffffu,
                                            0x7fffffffffffffffu,
                                            0x8000000000000000u,
                                            ~0ull};
  const bool f32 = name.ends_with("f32"), f64 = name.ends_with("f64");
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    for (std::size_t i = 0; i < kSlotBytes / 8; ++i) {
      std::uint64_t value =
          rng.below(std::uint64_t{1} << 32) << 32 | rng.below(std::uint64_t{1} << 32);
      if (rng.below(3) != 0) {
        if (f32)
          value = std::uint64_t{kFloats[rng.below(std::size(kFloats))]} << 32 |
                  kFloats[rng.below(std::size(kFloats))];
        else if (f64)
          value = kDoubles[rng.below(std::size(kDoubles))];
        else
          value = kIntegers[rng.below(std::size(kIntegers))];
      }
      std::memcpy(&registers.bytes[slot * kSlotBytes + 8 * i], &value, 8);
    }
}

TEST(Levels, AllGiveTheSameBits) {
  const auto levels = usable_levels();
  const Level& baseline = levels.back();
  ASSERT_EQ(baseline.name, "baseline");
  Rng rng(3);
  std::size_t compared = 0;
  for (const Level& level : levels.first(levels.size() - 1))
    for (std::size_t part = 0; part < 3; ++part) {
      ASSERT_EQ(level.parts[part].size(), baseline.parts[part].size());
      for (std::size_t i = 0; i < level.parts[part].size(); ++i) {
        const NamedOp& mine = level.parts[part][i];
        const NamedOp& theirs = baseline.parts[part][i];
        ASSERT_STREQ(mine.name, theirs.name);
        for (const std::uint32_t mask : {kAllLanes, 0x0f0f1234u, 1u}) {
          Registers a;
          fill(a, rng, mine.name);
          Registers b = a;
          Op op{.d = 0, .a = 256, .b = 512, .c = 768, .e = 1024};
          Warp wa{.registers = a.bytes, .mask = mask}, wb{.registers = b.bytes, .mask = mask};
          EXPECT_EQ(mine.fn(&op, wa), &op + 1);
          EXPECT_EQ(theirs.fn(&op, wb), &op + 1);
          ++compared;
          // What is no number may have any payload in 64 bits.
          const bool f64 = std::string(mine.name).find("f64") != std::string::npos;
          for (std::size_t at = 0; at < sizeof(a.bytes); at += 8) {
            double x, y;
            std::memcpy(&x, &a.bytes[at], 8);
            std::memcpy(&y, &b.bytes[at], 8);
            if (f64 && std::isnan(x) && std::isnan(y)) continue;
            ASSERT_EQ(std::memcmp(&a.bytes[at], &b.bytes[at], 8), 0)
                << level.name << " " << mine.name << " byte " << at;
          }
        }
      }
    }
  EXPECT_TRUE(levels.size() == 1 || compared > 1000) << compared;
}

}  // namespace
}  // namespace partita::ptx
