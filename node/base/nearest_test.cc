#include "base/nearest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace partita {
namespace {

// The definition, without a table.
std::size_t slow_edits(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() + b.size();
  const std::string_view x = a.substr(1), y = b.substr(1);
  if (a[0] == b[0]) return slow_edits(x, y);
  return 1 + std::min({slow_edits(x, b), slow_edits(a, y), slow_edits(x, y)});
}

RC_GTEST_PROP(Edits, AreTheirDefinition, ()) {
  const auto word = [] {
    const auto length = *rc::gen::inRange<std::size_t>(0, 6);
    return *rc::gen::container<std::string>(length, rc::gen::inRange('a', 'd'));
  };
  const std::string a = word(), b = word();
  RC_ASSERT(edits(a, b) == slow_edits(a, b));
}

TEST(Nearest, FindsSlipsAndPartsOfNames) {
  const std::vector<std::string> names = {"rate_rps", "slo_ms", "percentile", "exact", "name"};
  EXPECT_EQ(nearest("rate_rsp", names), "rate_rps");
  EXPECT_EQ(nearest("rps", names), "rate_rps");
  EXPECT_EQ(nearest("pe", names), "percentile");
  EXPECT_EQ(nearest("exacty", names), "exact");
  EXPECT_EQ(nearest("gpu_memory_in_total", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("exact", {}), "");
  EXPECT_EQ(nearest("xxxxe_rps", {"rate_rps"}), "") << "four of eight letters are too many";
  EXPECT_EQ(nearest("xxte_rps", {"rate_rps"}), "rate_rps");
  EXPECT_EQ(nearest("xxxxefghi", {"abcdefghi"}), "abcdefghi") << "of nine four may differ";
  EXPECT_EQ(nearest("xxxxxfghi", {"abcdefghi"}), "");
}

TEST(NearestFirst, ListsAllNamesTheLikestFirst) {
  EXPECT_EQ(nearest_first("bret", {"vgg16", "resnet50", "bert"}), "bert, vgg16, resnet50");
  EXPECT_EQ(nearest_first("net", {"bert", "resnet50", "mobilenet"}, 2),
            "mobilenet, resnet50 and 1 more");
  EXPECT_EQ(nearest_first("x", {}), "");
}

TEST(Nearest, BreaksTiesByName) {
  EXPECT_EQ(nearest("bit", {"bet", "bat"}), "bat");
  EXPECT_EQ(nearest("time_1g", {"time_cv", "time_s_1g"}), "time_s_1g") << "letters are missing";
  EXPECT_EQ(did_you_mean("bit", {"bet", "bat"}), "; did you mean 'bat'?");
  EXPECT_EQ(did_you_mean("quite different", {"bet"}), "");
}

TEST(Nearest, ComparesTheBeginningOfLongWords) {
  const std::string name(kMaxWordBytes, 'x');
  EXPECT_EQ(nearest(name + std::string(1'000'000, 'y'), {name}), name);
}

}  // namespace
}  // namespace partita
