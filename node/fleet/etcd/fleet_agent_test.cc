// Agents of a fleet over one store: what one says, another hears. How they lead and what they do
// when things fail is for node/fleet/testing/fleet_sim.h.
#include "fleet/etcd/fleet_agent.h"

#include <gtest/gtest.h>

#include "fleet/brain/testing/invented_fleet.h"
#include "fleet/etcd/memory_store.h"

namespace partita::fleet {
namespace {

TEST(FleetAgent, HearsTheVerdictsOfOthersThoughRatesStay) {
  MemoryStore store;
  FleetAgent a({.fleet = "f", .node = "a"}, store, ground_of_tests());
  FleetAgent b({.fleet = "f", .node = "b"}, store, ground_of_tests());
  NodeNow of_a{node_of_tests("a"), false, {{"s", 10}}, {}, {{"s", "serves"}}};
  const NodeNow of_b{node_of_tests("b")};
  std::int64_t now = 0;
  const auto turns = [&](std::int64_t ms) {
    for (const std::int64_t end = now + ms; now < end; now += 500) {
      store.tell_time(now);
      EXPECT_FALSE(a.turn(now, now, of_a).trouble);
      EXPECT_FALSE(b.turn(now, now, of_b).trouble);
    }
  };
  turns(1000);
  EXPECT_EQ(b.view().verdicts.at("a"), of_a.verdicts);
  of_a.verdicts[0].verdict = "down";
  turns(2 * kRatesMs);
  EXPECT_EQ(b.view().verdicts.at("a"), of_a.verdicts);
  a.leave();
  turns(0);
  b.turn(now, now, of_b);
  EXPECT_FALSE(b.view().verdicts.contains("a"));  // gone with its lease
}

// Two machines with one host name: the second does not write over the first, which is the fleet's
// until its lease ends; whoever begins anew with its own state directory has its name at once.
TEST(FleetAgent, ASecondAgentOfOneNameIsNoneOfTheFleet) {
  MemoryStore store;
  const auto made = [&] {
    return std::make_unique<FleetAgent>(FleetAgentSettings{.fleet = "f", .node = "a"}, store,
                                        ground_of_tests());
  };
  NodeNow first{node_of_tests("a")}, second = first;
  first.record.agent = "one";
  second.record.agent = "two";
  second.record.gpus.pop_back();
  auto one = made(), two = made();
  std::int64_t now = 0;
  const auto turn = [&](FleetAgent& agent, const NodeNow& node) {
    store.tell_time(now);
    Turn is = agent.turn(now, now, node);
    now += 500;
    EXPECT_FALSE(is.trouble);
    return is.waits;
  };
  EXPECT_EQ(turn(*one, first), "");
  for (int i = 0; i < 100; ++i) {
    EXPECT_NE(turn(*two, second).find("another agent is registered as 'a'"), std::string::npos);
    EXPECT_EQ(turn(*one, first), "");
  }
  EXPECT_EQ(one->view().nodes.at("a"), first.record);
  EXPECT_TRUE(one->leads());
  EXPECT_FALSE(two->leads());
  one = made();  // killed, and there again within its lease
  EXPECT_EQ(turn(*one, first), "");
  EXPECT_NE(turn(*two, second), "");
  one.reset();
  for (now += 1000 * (kLeaseSeconds + 1); turn(*two, second) != "";) ASSERT_LT(now, 100'000);
  EXPECT_EQ(two->view().nodes.at("a"), second.record);
  EXPECT_TRUE(two->leads());
  EXPECT_NE(turn(*made(), first), "");
}

}  // namespace
}  // namespace partita::fleet
