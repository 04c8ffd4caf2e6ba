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

}  // namespace
}  // namespace partita
