#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace partita {
namespace {

TEST(TextHash, GivesThePublishedValuesOfFnv1a) {
  EXPECT_EQ(text_hash(""), 0xcbf29ce484222325ULL);
  EXPECT_EQ(text_hash("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(text_hash("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(text_hash("\xff"), (0xcbf29ce484222325ULL ^ 0xff) * 0x100000001b3ULL);
}

// Java's SplittableRandom and the authors' splitmix64.c from seed 0.
TEST(Splitmix64, GivesThePublishedSequence) {
  std::uint64_t state = 0;
  EXPECT_EQ(splitmix64(state), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(splitmix64(state), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(splitmix64(state), 0x06c45d188009454fULL);
}

}  // namespace
}  // namespace partita
