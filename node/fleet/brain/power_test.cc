#include "fleet/brain/power.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "fleet/brain/testing/fleet_fixture.h"

namespace partita::fleet {
namespace {

// Two nodes on two feeds of 1,200 W, which hold to what they are told.
struct FleetOfPower {
  FleetView view;
  PowerBrain brain;
  std::map<std::string, std::optional<HeldBudget>> held;
  std::set<std::string> deaf = {};  // they say nothing of their budgets any more

  FleetOfPower() {
    view.power = FleetPower{.tree = {{"A", {}, 1200, {{1.5, 60}}}, {"B", {}, 1200, {{1.5, 60}}}}};
    for (const char* name : {"n1", "n2"}) {
      view.power->nodes.push_back({name, {"A", "B"}, 100, 200, 1140});
      view.nodes[name] = node_of_tests(name);
    }
  }
  // The leader decides once, and nodes hear it and limit their boards.
  bool step() {
    auto next = brain.decide(view, "n1");
    CHECK(next.has_value());
    if (*next) view.budgets = **next;
    for (auto& [name, node] : view.nodes) {
      if (deaf.contains(name)) continue;
      held[name] = budget_of(view, name, held[name]);
      if (held[name] && gpu_watts(*held[name], 0) >= node.least_gpu_w)
        node.holds_budget = held[name]->revision;
    }
    return next->has_value();
  }
  void settle() {
    for (int i = 0; step(); ++i) CHECK(i < 20);
  }
  double drawn() {  // by whole nodes, the store being heard
    double sum = 0;
    for (const auto& [name, one] : held) sum += gpu_watts(*one, 0) + one->other_w;
    return sum;
  }
};

TEST(FleetPower, AStoreThatLostItsBudgetsLeavesNodesWhatIsSafeWhicheverFeedFails) {
  FleetOfPower fleet;
  fleet.settle();
  EXPECT_GT(fleet.drawn(), 1200);  // both feeds are live
  const auto power = fleet.view.power;
  for (const bool with_power : {true, false}) {
    fleet.view.budgets.reset();
    fleet.view.power = with_power ? power : std::nullopt;
    for (auto& [name, one] : fleet.held) one = budget_of(fleet.view, name, one);
    EXPECT_LE(fleet.drawn(), 1200);
    fleet.view.power = power;
    fleet.settle();
    EXPECT_GT(fleet.drawn(), 1200);
  }
  fleet.view.power.reset();  // who draws from what, alone
  for (auto& [name, one] : fleet.held) one = budget_of(fleet.view, name, one);
  EXPECT_LE(fleet.drawn(), 1200);
  EXPECT_EQ(budget_of(FleetView{}, "n3", {}), std::nullopt);
}

// The tree says 200 W, 100 of them beside the GPUs, whose boards take 400 at the least.
TEST(FleetPower, NobodyIsToldLessThanItsBoardsTake) {
  FleetOfPower fleet;
  for (auto& [name, node] : fleet.view.nodes) node.least_gpu_w = 400;
  fleet.settle();
  for (const NodeBudget& one : fleet.view.budgets->nodes) EXPECT_GT(one.watts, 500) << one.node;
  EXPECT_NE(fleet.view.budgets->over.find("n1 takes 500 W at the least, not 200"),
            std::string::npos)
      << fleet.view.budgets->over;
  // Boards that were told less by an older leader.
  for (NodeBudget& one : fleet.view.budgets->nodes) one.watts = one.alone_w = 200;
  fleet.settle();
  for (const NodeBudget& one : fleet.view.budgets->nodes) EXPECT_GT(one.watts, 500) << one.node;
}

TEST(FleetPower, WhoIsNotThereIsNamedWhereHisWattsLeaveTooFew) {
  FleetOfPower fleet;
  fleet.view.power->nodes.push_back({"typo", {"A"}, 0, 50, 2000});
  fleet.settle();
  EXPECT_NE(fleet.view.budgets->over.find("typo is not there, and counts with 2000 W"),
            std::string::npos)
      << fleet.view.budgets->over;
}

// n2 hears nothing while feed A is dead, nor afterwards: it may draw what it had, and no more.
TEST(FleetPower, WhoCannotSayThatItHoldsToLessKeepsNobodyFromWhatIsBesideIt) {
  FleetOfPower fleet;
  fleet.settle();
  const auto before = fleet.view.budgets->nodes;
  fleet.deaf = {"n2"};
  fleet.view.power->failed = {"A"};
  fleet.settle();
  EXPECT_LT(fleet.view.budgets->nodes[0].watts, before[0].watts);
  fleet.view.power->failed = {};
  fleet.settle();
  EXPECT_EQ(fleet.view.budgets->nodes[0].watts, before[0].watts);
  EXPECT_EQ(fleet.held["n1"]->watts, before[0].watts);
  // What it may draw is no one else's: n1 gets of that only once n2 has said that it has less.
  fleet.view.power->nodes[1].most_w = 300;
  fleet.settle();
  EXPECT_EQ(fleet.view.budgets->nodes[1].watts, 300);
  EXPECT_EQ(fleet.view.budgets->nodes[1].may_w, before[1].watts);
  EXPECT_EQ(fleet.view.budgets->nodes[0].watts, before[0].watts);
  fleet.deaf = {};
  fleet.step();  // it hears
  fleet.settle();
  EXPECT_GT(fleet.view.budgets->nodes[0].watts, before[0].watts + 100);
}

TEST(FleetPower, ANameIsOfANodeOrOfAPointOfSupply) {
  FleetOfPower fleet;
  fleet.view.power->tree.push_back({"n1", {}, 100, {{1.5, 60}}});
  EXPECT_FALSE(tree_of("power", *fleet.view.power));
}

// It says that both have much; since then feed A has died, been repaired, and n2 had most of it.
TEST(FleetPower, AStoreThatWasPutBackDoesNotTellWhatNodesMayDrawNow) {
  FleetOfPower fleet;
  fleet.settle();
  const FleetView old = fleet.view;
  fleet.view.power->failed = {"A"};
  fleet.settle();
  fleet.view.power = old.power;
  fleet.settle();
  const long newest = fleet.view.budgets->revision;
  fleet.view.budgets = old.budgets;
  for (auto& [name, one] : fleet.held) one = budget_of(fleet.view, name, one);
  EXPECT_LE(fleet.drawn(), 1200);
  ASSERT_TRUE(fleet.step());
  EXPECT_GT(fleet.view.budgets->revision, newest);
  for (const NodeBudget& one : fleet.view.budgets->nodes) EXPECT_EQ(one.watts, 200);  // the least
  fleet.settle();
  EXPECT_GT(fleet.drawn(), 1200);
}

}  // namespace
}  // namespace partita::fleet
