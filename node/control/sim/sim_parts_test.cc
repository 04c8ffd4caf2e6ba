// The parts of a simulated node by themselves.
#include <gtest/gtest.h>

#include <cmath>

#include "control/sim/sim_boards.h"
#include "control/sim/sim_crews.h"
#include "control/sim/sim_gateway.h"
#include "control/sim/sim_troubles.h"

namespace partita::control {
namespace {

constexpr std::int64_t kPartSecond = 1'000'000'000, kPartDay = 86'400 * kPartSecond;

TEST(TroubleDates, ComeAsOftenAsTheyShouldAndNeverInCalm) {
  Rng rng(4);
  TroubleDates dates({.xids = 2, .calm_hours = 3}, rng);
  constexpr int kDays = 3000;
  int count = 0;
  for (std::int64_t now = dates.next(); now < kDays * kPartDay; now = dates.next()) {
    ASSERT_TRUE(dates.due(Trouble::xid, now));
    ASSERT_FALSE(dates.due(Trouble::reboot, now));
    ASSERT_FALSE(dates.calm(now)) << now;
    dates.draw(Trouble::xid, now);
    ASSERT_GT(dates.next(), now);
    ++count;
  }
  // What falls into calm is put off by up to three hours of every twelve, so a little fewer come.
  EXPECT_NEAR(count, 2 * kDays, 0.15 * 2 * kDays);
  EXPECT_TRUE(dates.calm(kPartDay / 2 - 1));
  EXPECT_FALSE(dates.calm(kPartDay / 2));
  EXPECT_FALSE(dates.calm(kPartDay / 2 - 3 * 3600 * kPartSecond - 1));
}

struct Boards {
  ManualClock clock;
  SimBoards boards{
      drivers::sim::Machine({{hw::builtin_catalogue().find("A100-80GB"), 2, true}}, "t"), clock,
      drivers::sim::PowerRights::anybody};
  std::map<std::string, int> told;
  Boards() {
    boards.told = [this](const std::string& what, const std::string&) { ++told[what]; };
  }
  std::string make() {
    const auto gi = boards.driver().create_instance(0, {0, 0});
    return boards.driver().create_compute(0, gi.value()).value().uuid;
  }
};

TEST(SimBoards, AProcessHoldsAGroupOfWholeGpus) {
  Boards world;
  const std::string group = world.boards.uuid_of(0) + "," + world.boards.uuid_of(1);
  EXPECT_FALSE(world.boards.hold(group, 7, "x"));  // they are cut
  for (const int gpu : {0, 1}) ASSERT_TRUE(world.boards.driver().set_mig_mode(gpu, false));
  EXPECT_FALSE(world.boards.hold(group, 7, "x"));  // until they are reset
  world.boards.reboot();
  EXPECT_EQ(world.boards.gpu_of(group), 0);
  ASSERT_TRUE(world.boards.hold(group, 7, "x"));
  ASSERT_TRUE(world.boards.hold(group, 7, "x", 0.5));
  EXPECT_EQ(world.boards.used(), 2);
  EXPECT_FALSE(world.boards.hold(group + ",GPU-none", 8, "x"));
  world.boards.lose(1);
  EXPECT_EQ(world.boards.gpu_of(group), std::nullopt);
  world.boards.regain(1);
  world.boards.let_go(7);
  EXPECT_EQ(world.boards.used(), 0);
}

TEST(SimBoards, AProcessHoldsADeviceUntilItLetsGo) {
  Boards world;
  const std::string device = world.make();
  EXPECT_EQ(world.boards.used(), 1);
  EXPECT_EQ(world.boards.devices(), std::set<std::string>{device});
  EXPECT_EQ(world.boards.gpu_of(device), 0);
  EXPECT_FALSE(world.boards.hold("MIG-none", 7, "x"));
  ASSERT_TRUE(world.boards.hold(device, 7, "x"));
  EXPECT_TRUE(world.boards.look().gpus[0].instances[0].busy());
  world.boards.let_go(7);
  EXPECT_FALSE(world.boards.look().gpus[0].instances[0].busy());
  world.boards.reboot();
  EXPECT_EQ(world.boards.gpu_of(device), std::nullopt);
}

TEST(SimBoards, WhatWentWrongIsHeardOnceAndByNobodyWhoBeginsLater) {
  Boards world;
  for (const HealthEvent& one : world.boards.take_health(false))
    EXPECT_EQ(one.kind, HealthEvent::Kind::well);
  EXPECT_TRUE(world.boards.take_health(false).empty());
  world.boards.lose(1);
  world.boards.add_error(0);
  const auto xid = world.boards.take_health(true);  // nothing can be read: XIDs are still heard
  ASSERT_EQ(xid.size(), 1U);
  EXPECT_EQ(xid[0].gpu_uuid, world.boards.uuid_of(1));
  const auto error = world.boards.take_health(false);
  ASSERT_EQ(error.size(), 1U);
  EXPECT_EQ(error[0].kind, HealthEvent::Kind::ecc);
  EXPECT_EQ(error[0].gpu_uuid, world.boards.uuid_of(0));
  EXPECT_TRUE(world.boards.take_health(false).empty());
  Rng rng(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(world.boards.healthy(rng), 0);
  world.boards.regain(1);
  world.boards.report_xid(0, 31);
  world.boards.watch_anew();
  for (const HealthEvent& one : world.boards.take_health(false))
    EXPECT_NE(one.kind, HealthEvent::Kind::xid);
  EXPECT_EQ(world.told, (std::map<std::string, int>{{"lost", 1}, {"regained", 1}}));
}

TEST(SimBoards, OthersMakeAndDestroyInstancesThatAreNamed) {
  Boards world;
  Rng rng(3);
  std::size_t most = 0;
  for (int i = 0; i < 60; ++i) {
    world.boards.change_by_others(rng);
    for (const std::string& device : world.boards.devices())
      EXPECT_TRUE(world.boards.foreign().contains(device));
    most = std::max(most, world.boards.devices().size());
  }
  EXPECT_GT(most, 1U);
  EXPECT_LT(world.boards.devices().size(), world.boards.foreign().size());
}

// A segment that is written to the disk, its crew and what the gateway makes of it: the tallies are
// what the rates and the formula say.
TEST(SimGateway, CountsByTheFormulaWhileItLivesAndLosesAllWhileItHangs) {
  Boards world;
  MemoryFiles disk;
  Rng rng(5);
  plan::Service service;
  service.name = service.model = "chat";
  service.rate = {80};
  service.slo = {100};
  SimSites sites{{{service, SimTraffic(service, {}, 10, Rng(1))}}, {}};
  SimCrews crews(sites, world.boards, disk, rng);
  SimGateway gateway(sites, crews);
  SimProcesses processes(world.clock, [](const ProcessSpec&) { return SimBehaviour{}; });
  gateway.start(processes, 0);
  const std::string device = world.make();
  disk.content["/state/assignment.json"] = actuate::assignment_json(
      {1, {{{"1g.10gb", 0}, {"chat", 1, 1, 100}, device, world.boards.uuid_of(0)}}});
  crews.follow(0);
  EXPECT_EQ(crews.next(0), std::nullopt) << "nobody starts it";
  crews.supervise(processes);
  crews.settle(0);
  const auto ready = crews.next(0);
  ASSERT_TRUE(ready.has_value());
  EXPECT_EQ(crews.ready(*ready - 1, 0).planned, 0);
  EXPECT_EQ(crews.ready(*ready, 0).planned, 100);

  const std::int64_t from = *ready, until = from + 10 * kPartSecond;
  gateway.account(from, until, {80});
  const double share = attained(80, 100, 100, service.percentile);
  EXPECT_NEAR(gateway.tally(0).arrived, 800, 1e-9);
  EXPECT_NEAR(gateway.tally(0).in_slo, 800 * share, 1e-9);
  EXPECT_EQ(gateway.tally(0).short_s, 0);
  EXPECT_EQ(gateway.state(until).services[0].requests->in_slo,
            static_cast<long>(std::floor(800 * share)));
  EXPECT_EQ(gateway.state(until).workers.size(), 1U);
  gateway.watch_floors({101});
  gateway.hang(until);
  gateway.account(until, until + kPartSecond, {200});
  EXPECT_NEAR(gateway.tally(0).missed + gateway.tally(0).shed, 800 * (1 - share) + 200, 1e-9);
  EXPECT_EQ(gateway.tally(0).short_s, 1);
  EXPECT_EQ(gateway.below_floor_s()[0], 1);
  EXPECT_EQ(gateway.state(until + kPartSecond), gateway.state(until)) << "it says nothing new";

  crews.end(until, [](const std::string& name, long) { return name == "chat"; });
  EXPECT_EQ(crews.ready(until, 0).planned, 0);
  EXPECT_EQ(crews.next(until), until + kPartSecond);
}

}  // namespace
}  // namespace partita::control
