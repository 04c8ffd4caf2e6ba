#include "base/parse_number.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(ParseNumber, IsTheWholeText) {
  EXPECT_EQ(parse_number<int>("42"), 42);
  EXPECT_EQ(parse_number<int>("-7"), -7);
  EXPECT_EQ(parse_number<long>("2147483648"), 2147483648L);
  EXPECT_EQ(parse_number<std::uint64_t>("ff", 16), 255u);
  EXPECT_EQ(parse_number<double>("2.5e3"), 2500);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "x", "2147483648", "0x1", "1.0"}) {
    EXPECT_FALSE(parse_number<int>(text)) << text;
  }
  EXPECT_FALSE(parse_number<double>("1e999"));
}

TEST(ParseNumber, TakesTheHead) {
  std::string_view text = "4x15";
  EXPECT_EQ(take_number<int>(text), 4);
  EXPECT_EQ(text, "x15");
  EXPECT_FALSE(take_number<int>(text));
  EXPECT_EQ(text, "x15");
  text = "19a";  // ten digits, no more
  EXPECT_EQ(take_number<int>(text), 19);
  EXPECT_EQ(text, "a");
}

}  // namespace
}  // namespace partita
