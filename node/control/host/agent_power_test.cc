#include "control/host/agent_power.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "control/power_split.h"
#include "drivers/sim/sim_driver.h"
#include "hw/catalogue.h"

namespace partita::control {
namespace {

// It may go on with its work, and with its limit.
TEST(AgentPower, ABoardThatDoesNotAnswerKeepsItsWattsFromOthers) {
  MemoryFiles files;
  RealClock clock;
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A100-80GB");
  const auto machine =
      drivers::sim::own_machine(drivers::sim::Machine({{&model, 2, true}}, "power"), clock, 0);
  drivers::sim::SimDriver driver(*machine);
  AgentPower power({files, driver, "/state", ""});
  const std::vector<std::string> uuids{driver.read(0)->uuid, driver.read(1)->uuid};
  ASSERT_EQ(power.read(uuids).size(), 2u);
  std::vector<PowerDeed> deeds;
  for (int gpu = 0; gpu < 2; ++gpu)
    deeds.push_back({gpu, uuids[static_cast<std::size_t>(gpu)], {Watts{250}, {}}, Watts{400}});
  power.set(deeds);
  for (const PowerEnd& end : power.take_ends()) ASSERT_TRUE(end.outcome);
  ASSERT_TRUE(machine->with([](drivers::sim::Machine& one) { one.report_xid(1, 79); }));
  ASSERT_FALSE(driver.power_settings(1));
  const auto boards = power.read(uuids);
  ASSERT_EQ(boards.size(), 2u);
  EXPECT_TRUE(boards[1].fixed);
  EXPECT_FALSE(boards[0].fixed);
  EXPECT_EQ(split_power(boards, 500), (std::vector<double>{250, 250}));
}

// An agent that begins while a board is off the bus: the node can still say what it holds to.
TEST(AgentPower, ABoardThatNeverAnsweredCountsWithTheMostOfItsNode) {
  MemoryFiles files;
  RealClock clock;
  const hw::GpuModel& model = **hw::builtin_catalogue().get("A100-80GB");
  const auto machine =
      drivers::sim::own_machine(drivers::sim::Machine({{&model, 2, true}}, "power"), clock, 0);
  drivers::sim::SimDriver driver(*machine);
  const std::vector<std::string> uuids{driver.read(0)->uuid, driver.read(1)->uuid};
  const double most = driver.power_settings(1)->most_limit->value;
  ASSERT_TRUE(machine->with([](drivers::sim::Machine& one) { one.report_xid(1, 79); }));
  AgentPower power({files, driver, "/state", ""});
  const auto boards = power.read(uuids);
  ASSERT_EQ(boards.size(), 2u);
  EXPECT_TRUE(boards[1].fixed);
  EXPECT_EQ(boards[1].now, most);
  EXPECT_EQ(split_power(boards, most + 250), (std::vector<double>{250, most}));
  ASSERT_TRUE(machine->with([](drivers::sim::Machine& one) { one.report_xid(0, 79); }));
  AgentPower blind({files, driver, "/state", ""});
  EXPECT_TRUE(blind.read(uuids).empty()) << "of none of them anybody knows";
}

}  // namespace
}  // namespace partita::control
