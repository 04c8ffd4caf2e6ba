#include "planners/power/tree.h"

#include <gtest/gtest.h>

namespace partita::power {
namespace {

// Two feeds of 10 kW, each with a rack; a node at both and one at the first alone.
PowerTree two_feeds() {
  const std::vector<Endurance> curve = {{1.2, 60}, {1.5, 25}, {2, 5}};
  return {{{"A", -1, 10'000, curve}, {"B", -1, 10'000, curve}, {"a1", 0, 8'000}, {"b1", 1, 8'000}},
          {{"both", {2, 3}, 1'000, 12'000, {{12'000, 2}}}, {"one", {2}, 500, 6'000, {{6'000, 3}}}},
          10};
}

TEST(PowerTree, AFeedThatFailsIsBorneByTheOther) {
  const PowerTree tree = two_feeds();
  // `one` is worth more: 6 kW of rack a1. When B fails, all of `both` is on a1, whose breaker bears
  // nothing above 8 kW: 2 kW are left for it.
  const auto found = budgets(tree, {}, Sharing::value);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->watts[1], 6'000, 1e-6);
  EXPECT_NEAR(found->watts[0], 2'000, 1e-6);
  EXPECT_NEAR(found->value, 5'500 * 3 + 1'000 * 2, 1e-6);
  EXPECT_TRUE(found->unsafe.empty());
}

TEST(PowerTree, ABreakersCurveLendsWhatCapsGiveBack) {
  PowerTree tree = two_feeds();
  tree.points[2].curve = {{1.5, 25}};  // twice the 10 s that caps take, and more
  // All of b1 for `both`, and of a1 what half of that leaves: together what a1 bears without B.
  const auto found = budgets(tree, {}, Sharing::value);
  EXPECT_NEAR(found->watts[0], 8'000, 1e-6);
  EXPECT_NEAR(found->watts[1], 4'000, 1e-6);
  tree.react_s = 13;
  EXPECT_NEAR(budgets(tree, {}, Sharing::value)->watts[0], 2'000, 1e-6);
}

TEST(PowerTree, DarkNodesHaveNothing) {
  PowerTree tree = two_feeds();
  tree.points[2].rating_w = 3'000;
  const auto found = budgets(tree, {0}, Sharing::fair);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->watts[1], 0);
  // A may come back: then `one` takes 500 of a1, and `both` the half of its own.
  EXPECT_NEAR(found->watts[0], 5'000, 1e-6);
}

TEST(PowerTree, WhatNoCapHelpsIsSaid) {
  PowerTree tree = two_feeds();
  tree.points[2].rating_w = 1'400;
  tree.nodes[0].least_w = 1'200;
  EXPECT_EQ(budgets(tree, {}, Sharing::value)->unsafe, std::vector<std::string>{"B"});
  tree.nodes[1].least_w = 1'000;
  const auto none = budgets(tree, {}, Sharing::value);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().context, "a1");
}

TEST(PowerTree, RefusesWhatIsNoTree) {
  EXPECT_TRUE(check_tree("t", two_feeds()));
  const auto broken = [](auto change) {
    PowerTree tree = two_feeds();
    change(tree);
    return !check_tree("t", tree);
  };
  EXPECT_TRUE(broken([](PowerTree& t) { t.points[2].parent = 2; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.points[0].rating_w = 0; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.points[0].curve[1].load = 1.1; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.points[0].curve[1].seconds = 100; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.nodes[0].inlets = {2, 0}; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.nodes[0].inlets = {9}; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.nodes[0].inlets = {}; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.nodes[0].most_w = 1; }));
  EXPECT_TRUE(broken([](PowerTree& t) { t.nodes[1].worth = {{1'000, 1}, {6'000, 2}}; }));
}

}  // namespace
}  // namespace partita::power
