#include "base/repeats.h"

#include <gtest/gtest.h>

#include <string>

namespace partita {
namespace {

using Ends = std::vector<std::size_t>;

Ends of(const std::string& text) { return repeats(std::vector<char>(text.begin(), text.end())); }

TEST(Repeats, TheShortestPeriodToTheEnd) {
  EXPECT_EQ(of("abcabcabc"), (Ends{0, 3, 6, 9}));
  EXPECT_EQ(of("settings.ababab"), Ends{});  // less than half of it
  EXPECT_EQ(of("set.abababab"), (Ends{4, 6, 8, 10, 12}));
  EXPECT_EQ(of("aaab"
               "aaab"
               "aaab"),
            (Ends{0, 4, 8, 12}));
  EXPECT_EQ(of("aaaa"), (Ends{0, 1, 2, 3, 4}));
}

TEST(Repeats, WhatDoesNot) {
  EXPECT_EQ(of(""), Ends{});
  EXPECT_EQ(of("ab"), Ends{});
  EXPECT_EQ(of("abab"), Ends{});  // twice is no habit
  EXPECT_EQ(of("abcdefgh"), Ends{});
}

}  // namespace
}  // namespace partita
