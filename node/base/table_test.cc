#include "base/table.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(Table, AlignsNumbersRightAndWordsLeft) {
  const Table table{{"NAME", "COUNT"}, {{"a", "7"}, {"größe", "-"}, {"b", "1200"}}};
  EXPECT_EQ(to_string(table),
            "NAME   COUNT\n"
            "a          7\n"
            "größe      -\n"
            "b       1200\n");
  EXPECT_EQ(to_string(Table{{"ONE"}, {}}), "ONE\n");
  EXPECT_EQ(to_string(Table{{"A", "MANY"}, {{"none", "1 %"}, {"-1.5", "12x"}}}),
            "   A  MANY\nnone  1 %\n-1.5  12x\n");
}

TEST(Table, TakesRowsAsTextWithBars) {
  Table table = headed("NAME|ms|");
  EXPECT_EQ(table.header, (std::vector<std::string>{"NAME", "ms", ""}));
  table.add("{}|{:.1f}|{} of {}", "a|b", 2.25, 1, 3);  // what is filled in may have bars
  table.add("{{}}|-|");
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"a|b", "2.2", "1 of 3"},
                                                               {"{}", "-", ""}}));
}

}  // namespace
}  // namespace partita
