#include "control/power.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

// Two boards of 100 to 400 W; work runs on the first.
struct PowerTest : testing::Test {
  World world = small_world(automatic());
  bool held = false;
  Report report;
  Power power{world, held, report};
  NodeView node = empty_node(world, 2);
  std::vector<plan::Service> services;
  std::map<std::string, ClockedRate> rates;
  std::optional<Target> target;
  Seen seen;
  std::int64_t now = kMonday;

  PowerTest() {
    node.state.gpus[0].instances.emplace_back().profile = "7g.80gb";
    for (int g = 0; g < 2; ++g) {
      PowerBoard& board = seen.power.emplace_back(PowerBoard{g, node.state.gpus[g].uuid});
      board.least = 100;
      board.most = board.now = 400;
      board.state.now.limit = Watts{400};
    }
  }
  Power::Deeds look(Mode mode = Mode::automatic) {
    return power.look({now, mode, node, services, rates, target, false, seen});
  }
};

TEST_F(PowerTest, NothingIsSetWithoutAPolicy) {
  const Power::Deeds deeds = look();
  EXPECT_TRUE(deeds.set.empty());
  EXPECT_FALSE(deeds.put_back);
}

TEST_F(PowerTest, ACapIsKeptByTheBoardThatRestsFirst) {
  world.settings.power.cap_w = 600;
  const Power::Deeds deeds = look();
  ASSERT_EQ(deeds.set.size(), 1u);
  EXPECT_EQ(deeds.set[0].uuid, "GPU-1");
  EXPECT_DOUBLE_EQ(deeds.set[0].settings.limit->value, 200);
  EXPECT_TRUE(deeds.set[0].lowers());
  EXPECT_TRUE(held);
  EXPECT_TRUE(look(Mode::observe).put_back);
  seen.power_back = Result<void>{};
  power.hear(seen, now);
  EXPECT_FALSE(held);
  EXPECT_FALSE(look(Mode::observe).put_back);
}

TEST_F(PowerTest, LimitsGoDownBeforeTheyGoUp) {
  world.settings.power.cap_w = 600;
  seen.power[0].now = 150;
  seen.power[0].state.now.limit = Watts{150};
  const Power::Deeds deeds = look();
  ASSERT_EQ(deeds.set.size(), 2u);
  EXPECT_EQ(deeds.set[0].uuid, "GPU-1");
  EXPECT_EQ(deeds.set[1].uuid, "GPU-0");
  EXPECT_DOUBLE_EQ(deeds.set[1].settings.limit->value, 400);
}

TEST_F(PowerTest, ABoardThatMayNotBeSetIsLeftAloneAndTheOtherGivesWay) {
  world.settings.power.cap_w = 600;
  look();
  report.take_news();
  seen.power_ends = {{"GPU-1", failed({ErrorCode::denied, "no permission", ""})}};
  power.hear(seen, now);
  EXPECT_EQ(report.take_news().at(0).subject, "GPU-1");
  const Power::Deeds deeds = look();
  ASSERT_EQ(deeds.set.size(), 1u);
  EXPECT_EQ(deeds.set[0].uuid, "GPU-0");
  EXPECT_DOUBLE_EQ(deeds.set[0].settings.limit->value, 200);
}

TEST_F(PowerTest, ABoardThatDoesNotAnswerKeepsItsWatts) {
  world.settings.power.cap_w = 600;
  seen.power[1].fixed = true;
  const auto set = look().set;
  ASSERT_EQ(set.size(), 1u);
  EXPECT_EQ(set[0].uuid, "GPU-0");
  EXPECT_DOUBLE_EQ(set[0].settings.limit->value, 200);
}

// A fleet's budget is to hold within seconds, whichever board fails.
TEST_F(PowerTest, WhileABoardCannotBeSetTheOthersGiveWayAndItIsTriedAgain) {
  world.settings.power.cap_w = 600;
  look();
  seen.power_ends = {{"GPU-1", failed({ErrorCode::timeout, "no answer", ""})}};
  power.hear(seen, now);
  seen.power_ends = {};
  const auto meanwhile = look().set;
  ASSERT_EQ(meanwhile.size(), 1u);
  EXPECT_EQ(meanwhile[0].uuid, "GPU-0");
  EXPECT_DOUBLE_EQ(meanwhile[0].settings.limit->value, 200);
  seen.power[0].now = 200;
  seen.power[0].state.now.limit = Watts{200};
  EXPECT_TRUE(look().set.empty());
  now += 5'000;
  const auto again = look().set;
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].uuid, "GPU-1");
  EXPECT_DOUBLE_EQ(again[0].settings.limit->value, 200);
  EXPECT_EQ(again[1].uuid, "GPU-0");
}

TEST_F(PowerTest, WithoutAResponseTableClocksAreLeftAlone) {
  world.settings.power.clocks = Clocks::slo;
  EXPECT_TRUE(power.by_rates());
  services = {wanted_service("a", 100)};
  node.state.gpus[0].instances[0].compute = {{0, 7, "MIG-1"}};
  node.assignment.segments.push_back({{"7g.80gb", 0}, {"a", 1, 1, 200}, "MIG-1", "GPU-0"});
  EXPECT_TRUE(look().set.empty());
  EXPECT_NE(report.take_news().at(0).sentence.find("no response table"), std::string::npos);
}

}  // namespace
}  // namespace partita::control
