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

}  // namespace
}  // namespace partita::fleet
