#include "drivers/sim/power_model.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "drivers/sim/sim_driver.h"

namespace partita::drivers::sim {
namespace {

constexpr std::int64_t kMilli = 1'000'000, kSecond = 1'000 * kMilli;

const hw::GpuModel& model_of(const char* name) { return *hw::builtin_catalogue().find(name); }
const Figures& a100() { return figures_of(model_of("A100-80GB")); }

SimPower busy(double level) {
  SimPower power;
  power = evolved(power, a100(), 1000 * kSecond);
  power.loads = {{.gi_id = -1},
                 {.gi_id = 1, .seed = 77, .share = 3.0 / 7, .level = level},
                 {.gi_id = 2, .seed = 99, .share = 4.0 / 7, .level = level}};
  return power;
}

TEST(SimPower, CounterIsTheIntegralOfThePower) {
  SimPower power = busy(0.8);
  double integral = 0;
  Rng rng(7);
  // Power is constant within a tenth of a second: steps that never cross one.
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t left = 100 * kMilli - power.at_ns % (100 * kMilli);
    const std::int64_t step =
        std::min(left, static_cast<std::int64_t>(rng.below(90)) * kMilli + kMilli);
    const double watts = reading_of(power, a100()).watts;
    EXPECT_GT(watts, a100().idle_w);
    integral += watts * static_cast<double>(step) * 1e-9;
    const SimPower next = evolved(power, a100(), power.at_ns + step);
    EXPECT_GT(next.energy_j, power.energy_j);
    power = next;
  }
  EXPECT_NEAR(power.energy_j, integral, 1e-9 * integral);
}

TEST(SimPower, LookingInBetweenChangesNothing) {
  const SimPower start = busy(0.6);
  Rng rng(3);
  SimPower often = start;
  std::int64_t now = start.at_ns;
  while (now < start.at_ns + 50 * kSecond) {
    now += static_cast<std::int64_t>(rng.below(700)) * kMilli;
    often = evolved(often, a100(), now);
  }
  const SimPower once = evolved(start, a100(), now);
  EXPECT_NEAR(often.energy_j, once.energy_j, 1e-9 * once.energy_j);
  EXPECT_NEAR(often.chip_c, once.chip_c, 1e-9);
  EXPECT_NEAR(often.average_w, once.average_w, 1e-6);
  EXPECT_NEAR(often.loads[1].busy_s, once.loads[1].busy_s, 1e-9);
}

TEST(SimPower, IdleBoardDrawsItsIdlePowerAndStaysCool) {
  const SimPower later = evolved(evolved({}, a100(), kSecond), a100(), 1001 * kSecond);
  EXPECT_NEAR(later.energy_j, 1000.0 * a100().idle_w, 1e-6);
  EXPECT_NEAR(later.chip_c, 30 + 44.0 * a100().idle_w / a100().limit_w, 1e-9);
  const PowerReading reading = reading_of(later, a100());
  EXPECT_EQ(reading.watts, a100().idle_w);
  EXPECT_EQ(reading.reasons, static_cast<unsigned>(Throttle::idle));
}

TEST(SimPower, MeanActivityIsTheLevel) {
  const SimPower start = busy(0.7);
  const SimPower later = evolved(start, a100(), start.at_ns + 59 * kSecond);
  EXPECT_NEAR(later.loads[1].busy_s / 59, 0.7, 0.03);
}

TEST(SimPower, LimitHoldsAndClocksGiveWay) {
  for (const double limit : {150.0, 250.0}) {
    SimPower power = busy(1.0);
    power.settings.limit = Watts{limit};
    double fastest = 0;
    for (int i = 0; i < 100; ++i) {
      power = evolved(power, a100(), power.at_ns + 100 * kMilli);
      const PowerReading reading = reading_of(power, a100());
      EXPECT_LE(reading.watts, limit + 1e-9);
      EXPECT_GT(reading.watts, limit - 12) << "no slower than it must be";
      EXPECT_NE(reading.reasons & static_cast<unsigned>(Throttle::power_cap), 0u);
      fastest = std::max(fastest, reading.sm_mhz);
    }
    EXPECT_LT(fastest, a100().sm_max);
  }
}

TEST(SimPower, LockedClocksAreKept) {
  SimPower power = busy(0.5);
  power.settings.clocks = {Mhz{600}, Mhz{900}};
  const PowerReading reading = reading_of(power, a100());
  EXPECT_EQ(reading.sm_mhz, 900);
  EXPECT_LT(reading.watts, reading_of(busy(0.5), a100()).watts);
  power.loads.clear();
  EXPECT_EQ(reading_of(power, a100()).sm_mhz, 600);
}

TEST(SimPower, HeatSlowsDownAndIsBounded) {
  SimPower power = busy(1.0);
  power.ambient_c = 60;
  power = evolved(power, a100(), power.at_ns + 120 * kSecond);
  EXPECT_GT(power.chip_c, 85);
  EXPECT_LT(power.chip_c, 95);
  EXPECT_NE(reading_of(power, a100()).reasons & static_cast<unsigned>(Throttle::software_heat), 0u);
  EXPECT_LT(reading_of(power, a100()).watts, a100().limit_w * 0.95);
}

// A machine with an instance that a process keeps busy.
Machine working(double activity) {
  Machine machine({{&model_of("H100-80GB-SXM5"), 1, true}}, "power");
  const int profile = machine.gpus()[0].model->profile_index("3g.40gb");
  const int gi_id = machine.create_instance(0, profile, 4)->value;
  EXPECT_TRUE(machine.create_compute(0, gi_id, 3, 0));
  EXPECT_TRUE(machine.attach(0, {4711, "train", gi_id, 0, false, activity}));
  return machine;
}

TEST(SimPower, DriverTellsActivityOfTheInstanceSinceTheReadingBefore) {
  ManualClock clock;
  clock.now = 50 * kSecond;
  const auto shared = own_machine(working(0.6), clock, 1);
  SimDriver driver(*shared);
  ASSERT_TRUE(driver.telemetry(0));
  clock.now += 40 * kSecond;
  const auto sample = driver.telemetry(0);
  ASSERT_TRUE(sample);
  ASSERT_EQ(sample->instances.size(), 1u);
  EXPECT_NEAR(*sample->instances[0].activity.graphics_engine, 0.6, 0.03);
  EXPECT_NEAR(*sample->activity.graphics_engine, 0.6 * 3 / 7, 0.02);
  ASSERT_EQ(sample->processes.size(), 1u);
  EXPECT_EQ(sample->processes[0].gi_id, sample->instances[0].gi_id);
  EXPECT_GT(*sample->power, Watts{80});
  EXPECT_GT(*sample->temperature, Celsius{33});
}

TEST(SimPower, EnergyIsOfWhatRanWhenItRan) {
  ManualClock clock;
  clock.now = 50 * kSecond;
  const auto shared = own_machine(working(0.6), clock, 1);
  SimDriver driver(*shared);
  const double idle_w = figures_of(model_of("H100-80GB-SXM5")).idle_w;
  const double start = driver.telemetry(0)->energy->value;
  clock.now += 10 * kSecond;
  EXPECT_TRUE(shared->with([](Machine& machine) { machine.detach(4711); }));
  const double at_end = driver.telemetry(0)->energy->value;
  clock.now += 10 * kSecond;
  const double after = driver.telemetry(0)->energy->value;
  EXPECT_NEAR(after - at_end, 10 * idle_w, 1e-6);
  EXPECT_GT(at_end - start, 12 * idle_w);
}

TEST(SimPower, MachineTextKeepsPowerAndSettings) {
  Machine machine = working(0.25);
  ASSERT_TRUE(
      machine.set_power(0, {Watts{333}, device::ClockRange{Mhz{600}, Mhz{1005}}}, 5 * kSecond));
  ASSERT_TRUE(machine.power_at(0, 77 * kSecond + 123));
  machine.settle(977 * kSecond);
  const auto again = Machine::from_text("f", machine.text(), hw::builtin_catalogue());
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, machine);
  EXPECT_EQ(again->find(0)->power.settings.limit, Watts{333});
}

TEST(SimPower, SettingsOutOfRangeAreRefused) {
  Machine machine = working(0.25);
  const auto refused = [&](const device::PowerSettings& settings) {
    const auto set = machine.set_power(0, settings, kSecond);
    return !set && set.error().code == ErrorCode::invalid_argument;
  };
  EXPECT_TRUE(refused({Watts{701}, {}}));
  EXPECT_TRUE(refused({Watts{0}, {}}));
  EXPECT_TRUE(refused({Watts{-5}, {}}));
  EXPECT_TRUE(refused({{}, device::ClockRange{Mhz{1000}, Mhz{900}}}));
  EXPECT_TRUE(refused({{}, device::ClockRange{Mhz{1000}, Mhz{9000}}}));
  EXPECT_TRUE(refused({Watts{std::nan("")}, {}}));
}

TEST(SimPower, RightsAreAsDescribed) {
  ManualClock clock;
  const auto shared = own_machine(working(0.2), clock, 1, {}, PowerRights::nobody);
  SimDriver driver(*shared);
  const auto set = driver.set_power_settings(0, {Watts{300}, {}});
  ASSERT_FALSE(set);
  EXPECT_EQ(set.error().code, ErrorCode::denied);
  EXPECT_EQ(driver.power_settings(0)->now.limit, Watts{700});
}

TEST(SimPower, UnknownBoardsTellNothing) {
  ManualClock clock;
  Machine machine({{&model_of("A100-80GB"), 1, false}}, "x");
  machine.lose(0);
  const auto shared = own_machine(machine, clock, 1);
  SimDriver driver(*shared);
  EXPECT_EQ(driver.telemetry(0).error().code, ErrorCode::lost);
  EXPECT_EQ(driver.telemetry(1).error().code, ErrorCode::not_found);
  EXPECT_EQ(driver.power_settings(0).error().code, ErrorCode::lost);
}

}  // namespace
}  // namespace partita::drivers::sim
