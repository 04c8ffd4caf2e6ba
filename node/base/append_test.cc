#include "base/append.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace partita {
namespace {

TEST(Append, PutsBehindWhatIsThere) {
  std::string text = "a";
  append(text, " {}{:.2f}", "b", 1.0);
  append(text, "");
  EXPECT_EQ(text, "a b1.00");
}

TEST(Joined, TakesTextsAndWholeNumbersOfAnyRange) {
  EXPECT_EQ(joined(std::vector<std::string>{"a", "", "c"}, ", "), "a, , c");
  EXPECT_EQ(joined(std::set<int>{3, -1}, " "), "-1 3");
  const char* const words[] = {"one"};
  EXPECT_EQ(joined(words, ","), "one");
  EXPECT_EQ(joined(std::vector<std::size_t>{}, ","), "");
}

}  // namespace
}  // namespace partita
