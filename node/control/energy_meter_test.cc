// Watts by hand; joules against the attribution of the whole log, which is another way through the
// same samples.
#include "control/energy_meter.h"

#include <gtest/gtest.h>

#include <random>

#include "model/energy/from_telemetry.h"

namespace partita::control {
namespace {

constexpr double kIdleW = 70;

telemetry::InstanceSample slices(int gi, const std::string& uuid, int compute, double busy) {
  telemetry::InstanceSample one{.gi_id = gi, .uuid = uuid, .compute_slices = compute};
  one.memory_slices = compute;
  one.activity.sm = busy;
  return one;
}

// A board of 7 slices with instances of 3 and 2; what it takes adds up.
telemetry::Sample at(double seconds, double chat, double search, double& joules, double step) {
  telemetry::GpuSample gpu{.index = 0, .uuid = "GPU-0", .model = "H100", .compute_slices = 7};
  const double watts = kIdleW + 210 * chat * 3 / 7 + 210 * search * 2 / 7;
  joules += watts * step;
  gpu.power = Watts{watts};
  gpu.energy = Joules{joules};
  gpu.instances = {slices(1, "MIG-1", 3, chat), slices(2, "MIG-2", 2, search)};
  return {.at = {seconds}, .gpus = {gpu}};
}

energy::Tenancy both() {
  return {{{{}, "chat", "MIG-1"}, {{}, "search", "MIG-2"}}, {}};
}

TEST(EnergyMeter, TellsWattsApart) {
  EnergyMeter meter;
  double joules = 1e6;
  meter.see(at(100, 0, 0, joules, 0), both());
  EXPECT_TRUE(meter.draws().empty()) << "one sample is no interval";
  meter.see(at(110, 0, 0, joules, 10), both());
  EXPECT_NEAR(meter.draws().at("chat").watts, kIdleW * 3 / 7, 1e-3);
  EXPECT_NEAR(meter.draws().at("search").watts, kIdleW * 2 / 7, 1e-3);
  meter.see(at(114, 1, 0, joules, 4), both());
  EXPECT_NEAR(meter.draws().at("chat").watts, kIdleW * 3 / 7 + 90, 1e-3);
  EXPECT_NEAR(meter.draws().at("search").watts, kIdleW * 2 / 7, 1e-3);
  EXPECT_NEAR(meter.draws().at("chat").joules, kIdleW * 3 / 7 * 14 + 90 * 4, 1e-2);
  // Twice the same sample, and one from before, tell nothing.
  const auto then = meter.draws();
  meter.see(at(114, 1, 1, joules, 0), both());
  meter.see(at(90, 1, 1, joules, 0), both());
  EXPECT_EQ(meter.draws(), then);
  // Nobody watched for ten minutes: no joules of them, and no watts now.
  meter.see(at(714, 1, 1, joules, 600), both());
  EXPECT_EQ(meter.draws().at("chat").watts, 0);
  EXPECT_EQ(meter.draws().at("chat").joules, then.at("chat").joules);
  // Who has gone keeps what it took.
  meter.see(at(720, 0, 1, joules, 6), {{{{}, "search", "MIG-2"}}, {}});
  EXPECT_EQ(meter.draws().at("chat"), (Draw{0, then.at("chat").joules}));
  EXPECT_NEAR(meter.draws().at("search").watts, kIdleW * 2 / 7 + 60, 1e-3);
}

TEST(EnergyMeter, AgreesWithTheAttributionOfTheWholeLog) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> busy(0.05, 1), step(1, 5);
  for (int round = 0; round < 20; ++round) {
    EnergyMeter meter;
    telemetry::Log log;
    double joules = 5e5, now = 1000;
    for (int look = 0; look < 50; ++look) {
      const double length = step(random);
      now += length;
      const bool quiet = look < 2;
      log.push_back(at(now, quiet ? 0 : busy(random), quiet ? 0 : busy(random), joules, length));
      meter.see(log.back(), both());
    }
    const auto boards = telemetry::measure(log);
    const auto told = energy::ledger_of(log, boards, both(), {});
    const auto parts =
        energy::attribute(told.ledger, energy::SplitRule::activity, energy::IdlePolicy::slice);
    for (std::size_t t = 0; t < told.services.size(); ++t)
      EXPECT_NEAR(meter.draws().at(told.services[t]).joules,
                  static_cast<double>(parts.tenants[t]) * 1e-6, 1e-3)
          << told.services[t] << " in round " << round;
  }
}

}  // namespace
}  // namespace partita::control
