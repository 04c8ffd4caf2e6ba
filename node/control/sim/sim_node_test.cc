#include "control/sim/sim_node.h"

#include <gtest/gtest.h>

namespace partita::control {
namespace {

constexpr std::int64_t kSimNodeSecond = 1'000'000'000;

plan::Service sim_service(double rate_rps) {
  plan::Service service;
  service.name = service.model = "chat";
  service.rate = {rate_rps};
  service.slo = {100};
  return service;
}

TEST(Attained, GoesThroughWhatThePlanPromises) {
  EXPECT_EQ(attained(0, 100, 150, 99), 1);
  EXPECT_NEAR(attained(100, 100, 150, 99), 0.99, 1e-12);
  // Halfway to full utilisation the exponent is a half: sqrt(0.01) are late; shedding does better.
  EXPECT_NEAR(attained(125, 100, 150, 99), std::max(0.9, 0.99 * 100 / 125), 1e-12);
  // Twice the planned idle capacity: the square.
  EXPECT_NEAR(attained(50, 100, 150, 99), 1 - 0.0001, 1e-12);
  EXPECT_NEAR(attained(1000, 100, 150, 99), 0.099, 1e-12);
  EXPECT_EQ(attained(10, 0, 0, 99), 0);
  for (double rate = 1; rate < 300; rate += 1)  // never better with more
    EXPECT_GE(attained(rate, 100, 150, 99), attained(rate + 1, 100, 150, 99));
}

TEST(SimTraffic, FollowsTheSeedAndTheFile) {
  TrafficShape plain;
  plain.shifts_per_day = plain.bursts_per_day = plain.noise = 0;
  plain.weekend = 1;
  const SimTraffic day(sim_service(200), plain, plan::kMinutesOfDay, Rng(1));
  EXPECT_NEAR(day.peak(), 200, 1e-3);
  EXPECT_NEAR(day.mean(), 200 * 0.65, 0.1);  // the mean of a cosine hill from 0.3 to 1
  plan::Service stairs = sim_service(200);
  stairs.traffic.rates = {{0, {10}}, {720, {30}}};
  const SimTraffic given(stairs, plain, plan::kMinutesOfDay, Rng(1));
  EXPECT_EQ(given.rate(719), 10);
  EXPECT_EQ(given.rate(720), 30);
  EXPECT_EQ(given.rate(100'000), 30);
  const SimTraffic once(sim_service(200), {}, 3000, Rng(5)),
      again(sim_service(200), {}, 3000, Rng(5)), other(sim_service(200), {}, 3000, Rng(6));
  bool differs = false;
  for (int m = 0; m < 3000; ++m) {
    ASSERT_EQ(once.rate(m), again.rate(m));
    differs = differs || once.rate(m) != other.rate(m);
  }
  EXPECT_TRUE(differs);
}

// A node with one instance, on which a segment is put by hand.
struct OneSegment {
  const hw::Catalogue& catalogue = hw::builtin_catalogue();
  TrafficShape even{
      .trough = 1, .weekend = 1, .shifts_per_day = 0, .bursts_per_day = 0, .noise = 0};
  SimNode node{{.machine = drivers::sim::Machine({{catalogue.find("A100-80GB"), 1, true}}, "test"),
                .sites = {{{sim_service(80), SimTraffic(sim_service(80), even, 600, Rng(1))}}, {}},
                .services_text = "",
                .troubles = {}},
               catalogue};
  AgentDoors doors = node.doors();
  std::string device;

  void assign(double rps) {
    const auto gi = doors.driver.create_instance(0, {0, 0});
    ASSERT_TRUE(gi) << to_string(gi.error());
    const auto made = doors.driver.create_compute(0, *gi);
    ASSERT_TRUE(made);
    device = made->uuid;
    write(1, {{{node.boards().look().gpus[0].instances[0].profile, 0},
               {"chat", 1, 1, rps},
               device,
               node.boards().look().gpus[0].uuid}});
  }
  void write(long revision, std::vector<actuate::AssignedSegment> segments) {
    ASSERT_TRUE(
        doors.files.write_atomic(actuate::assignment_path(doors.state_dir),
                                 actuate::assignment_json({revision, std::move(segments)})));
  }
};

TEST(SimNode, WorkersTakeTheirTimeAndHoldTheirDevice) {
  OneSegment world;
  world.assign(100);
  EXPECT_EQ(world.node.ready_rps(0), 0);
  EXPECT_TRUE(world.node.boards().look().gpus[0].instances[0].busy());
  world.node.advance(world.node.now_ns() + 31 * kSimNodeSecond);
  EXPECT_EQ(world.node.ready_rps(0), 100);
  world.write(2, {});
  EXPECT_EQ(world.node.ready_rps(0), 0);
  EXPECT_TRUE(world.node.boards().look().gpus[0].instances[0].busy());  // it is on its way out
  world.node.advance(world.node.now_ns() + 3 * kSimNodeSecond);
  EXPECT_FALSE(world.node.boards().look().gpus[0].instances[0].busy());
}

TEST(SimNode, CountsEveryRequestOnce) {
  OneSegment world;
  world.assign(100);
  world.node.advance(600 * kSimNodeSecond);
  const SimTally& tally = world.node.gateway().tally(0);
  EXPECT_NEAR(tally.arrived, 80 * 600, 1e-3);
  EXPECT_NEAR(tally.arrived, tally.in_slo + tally.missed + tally.shed, 1e-6);
  EXPECT_GT(tally.longest_short_s, 9);  // until the workers were ready
  EXPECT_LT(tally.longest_short_s, 31);
  EXPECT_NEAR(world.node.counts().gpu_seconds, 600, 1);
}

TEST(SimNode, TheGatewayStateIsReadAsARealOne) {
  OneSegment world;
  world.assign(100);
  world.node.advance(120 * kSimNodeSecond);
  const auto state = actuate::read_gateway(
      {*world.doors.processes, world.doors.files, world.doors.state_dir}, world.node.now_ns());
  ASSERT_TRUE(state) << to_string(state.error());
  ASSERT_TRUE(state->has_value());
  ASSERT_EQ((*state)->workers.size(), 1U);
  EXPECT_EQ((*state)->workers[0].state, actuate::WorkerReadiness::ready);
  ASSERT_TRUE((*state)->services[0].requests.has_value());
  EXPECT_NEAR(static_cast<double>((*state)->services[0].requests->arrived), 80 * 120, 3);
}

TEST(SimNode, ARebootTakesInstancesAndLeavesTheAssignment) {
  OneSegment world;
  world.assign(100);
  world.node.advance(60 * kSimNodeSecond);
  world.node.reboot();
  EXPECT_TRUE(world.node.boards().look().gpus[0].instances.empty());
  EXPECT_EQ(world.node.assignment().segments.size(), 1U);
  EXPECT_EQ(world.node.ready_rps(0), 0);
}

}  // namespace
}  // namespace partita::control
