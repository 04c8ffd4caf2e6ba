#include "base/named_list.h"

#include <gtest/gtest.h>

namespace partita {
namespace {

TEST(NamedList, IsAName) {
  const auto list = parse_named_list("--tenant", "lab=chat,search", "SERVICE");
  ASSERT_TRUE(list);
  EXPECT_EQ(list->name, "lab");
  EXPECT_EQ(list->items, (std::vector<std::string>{"chat", "search"}));
  EXPECT_EQ(parse_named_list("--tenant", "a=b=c", "SERVICE")->items.front(), "b=c");
}

TEST(NamedList, RefusesWithTheFlag) {
  for (const char* text : {"", "lab", "=chat", "lab=", "lab=a,,b", "lab=a,", "l\nb=a"}) {
    const auto list = parse_named_list("--tenant", text, "SERVICE");
    ASSERT_FALSE(list) << text;
    EXPECT_EQ(list.error().context, "--tenant");
  }
  EXPECT_EQ(parse_named_list("--tenant", "lab", "SERVICE").error().message,
            "'lab' is not NAME=SERVICE,SERVICE");
}

}  // namespace
}  // namespace partita
