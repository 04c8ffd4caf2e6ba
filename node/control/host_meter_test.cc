// The invariant: parts and what is nobody's are the whole, whatever is read. Money by hand.
#include "control/host_meter.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "control/bills.h"

namespace partita::control {
namespace {

telemetry::HostSample at(double seconds, double cpu_j, double dram_j) {
  return {.at = {seconds}, .energy = {Joules{cpu_j}, Joules{dram_j}, {}}};
}

double idle_sum(const HostMeter& meter) {
  double all = 0;
  for (const auto& [tenant, draw] : meter.draws()) all += meter.idle_joules(tenant);
  return all;
}
double sum(const HostMeter& meter) {
  double all = 0;
  for (const auto& [tenant, draw] : meter.draws()) all += draw.joules;
  return all;
}

TEST(HostMeter, BySlicesWhereTimesAreNotKnown) {
  HostMeter meter;
  meter.see(at(10, 1000, 100), {{"chat", 0.5}, {"search", 0.25}});
  EXPECT_TRUE(meter.draws().empty());
  EXPECT_EQ(meter.whole()->cpu_j, std::nullopt) << "one reading is no interval";
  meter.see(at(20, 2000, 300), {{"chat", 0.5}, {"search", 0.25}});
  EXPECT_NEAR(*meter.whole()->cpu_w, 100, 1e-9);
  EXPECT_NEAR(*meter.whole()->dram_w, 20, 1e-9);
  EXPECT_EQ(meter.whole()->psys_w, std::nullopt);
  EXPECT_NEAR(meter.draws().at("chat").watts, 60, 1e-6);
  EXPECT_NEAR(meter.draws().at("search").joules, 300, 1e-6);
  EXPECT_NEAR(meter.draws().at(HostMeter::kNobody).joules, 300, 1e-6);
}

TEST(HostMeter, ByCpuTimeWhereItIsKnown) {
  HostMeter meter;
  auto sample = at(10, 0, 0);
  sample.cpu_s = 500;
  sample.cpu_of = {{"chat", 20}, {"search", 20}};
  meter.see(sample, {{"chat", 0.5}, {"search", 0.25}});
  sample = at(20, 1000, 0);
  sample.cpu_s = 540;
  sample.cpu_of = {{"chat", 50}, {"search", 22}};
  meter.see(sample, {{"chat", 0.5}, {"search", 0.25}});
  EXPECT_NEAR(meter.draws().at("chat").joules, 750, 1e-6);
  EXPECT_NEAR(meter.draws().at("search").joules, 50, 1e-6);
  EXPECT_NEAR(meter.draws().at(HostMeter::kNobody).joules, 200, 1e-6);
}

TEST(HostMeter, PartsAreTheWhole) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    HostMeter meter;
    double now = 0, cpu = 0, dram = 0, busy = 0, most_idle = 0;
    std::map<std::string, double> times;
    for (int look = 0; look < 40; ++look) {
      now += 1 + 30 * rng.uniform();
      cpu += 500 * rng.uniform();
      dram += 40 * rng.uniform();
      std::map<std::string, double> shares;
      auto sample = at(now, cpu, dram);
      double used = 0;
      for (const char* tenant : {"a", "b", "c", "d"}) {
        if (rng.uniform() < 0.3) continue;
        shares[tenant] = rng.uniform() / 4;
        const double more = rng.uniform();
        used += more;
        times[tenant] += more;
      }
      busy += used + (rng.uniform() < 0.2 ? 0 : rng.uniform());
      if (rng.uniform() < 0.6) sample.cpu_s = busy, sample.cpu_of = times;
      if (rng.uniform() < 0.1) sample.energy.dram.reset();
      meter.see(sample, shares);
      const HostNow& whole = *meter.whole();
      ASSERT_NEAR(sum(meter), whole.cpu_j.value_or(0) + whole.dram_j.value_or(0), 1e-4);
      ASSERT_GE(idle_sum(meter), most_idle - 1e-9) << "it never falls";
      most_idle = idle_sum(meter);
      ASSERT_LE(most_idle, sum(meter) + 1e-9);
      for (const auto& [tenant, draw] : meter.draws()) {
        ASSERT_GE(draw.watts, 0);
        ASSERT_LE(meter.idle_joules(tenant), draw.joules + 1e-9) << tenant;
      }
    }
  }
}

// Idle power is the least that there was, of each part by itself; it goes as the rest does.
TEST(HostMeter, WhatIsIdleIsSaidOfEachPart) {
  HostMeter meter;
  auto sample = at(0, 0, 0);
  sample.cpu_s = 0;
  sample.cpu_of = {{"task", 0}};
  meter.see(sample, {});
  EXPECT_EQ(meter.part_of("task"), std::nullopt) << "one reading is no interval";
  // 60 W + 6 W while a quarter of the time is its.
  sample = at(10, 600, 60), sample.cpu_s = 4, sample.cpu_of = {{"task", 1}};
  meter.see(sample, {});
  EXPECT_NEAR(meter.part_of("task")->joules, 165, 1e-6);
  EXPECT_NEAR(meter.part_of("task")->idle_joules, 165, 1e-6) << "nothing less was ever seen";
  // 200 W + 16 W while three quarters are: 66 W of these are idle.
  sample = at(20, 2600, 220), sample.cpu_s = 8, sample.cpu_of = {{"task", 4}};
  meter.see(sample, {});
  EXPECT_NEAR(meter.part_of("task")->joules, 165 + 0.75 * 2160, 1e-6);
  EXPECT_NEAR(meter.part_of("task")->idle_joules, 165 + 0.75 * 660, 1e-6);
  EXPECT_NEAR(idle_sum(meter), 2 * 660, 1e-6);
  EXPECT_NEAR(sum(meter), 2820, 1e-6);
  EXPECT_EQ(meter.part_of("other"), std::nullopt) << "nobody knows its time";
  sample = at(30, 2600, 220), sample.cpu_s.reset();
  meter.see(sample, {});
  EXPECT_EQ(meter.part_of("task"), std::nullopt);
  meter.forget("task");
  EXPECT_EQ(meter.draws().size(), 1U);
}

TEST(HostMeter, WhatIsNotToldIsMissing) {
  HostMeter meter;
  telemetry::HostSample none{.at = {10}, .fault = "no counters"};
  meter.see(none, {{"chat", 1}});
  none.at = {20};
  meter.see(none, {{"chat", 1}});
  EXPECT_EQ(meter.whole(), (HostNow{.fault = "no counters"}));
  EXPECT_TRUE(meter.draws().empty());
  telemetry::Sample sample{.at = {20}, .gpus = {{.index = 0}}};
  sample.gpus[0].power = Watts{300};
  EXPECT_EQ(together({.cpu_w = 100}, sample), std::nullopt) << "memory is not told";
  EXPECT_EQ(together({.cpu_w = 100, .dram_w = 20}, sample), 420);
  sample.gpus.push_back({.index = 1});
  EXPECT_EQ(together({.cpu_w = 100, .dram_w = 20}, sample), std::nullopt);
}

TEST(HostMeter, SlicesOfTenants) {
  telemetry::Sample sample{.at = {20}, .gpus = {{.index = 0}, {.index = 1}}};
  for (auto& gpu : sample.gpus) gpu.compute_slices = 7;
  sample.gpus[0].instances = {{.uuid = "MIG-1", .compute_slices = 3},
                              {.uuid = "MIG-2", .compute_slices = 4}};
  sample.gpus[1].instances = {{.uuid = "MIG-3", .compute_slices = 2}};
  energy::Tenancy tenancy{
      {{{}, "chat", "MIG-1"}, {{}, "chat", "MIG-3"}, {{}, "chat", "MIG-3"}, {{}, "gone", "MIG-9"}},
      {}};
  const auto shares = slice_shares(sample, tenancy);
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_NEAR(shares.at("chat"), 5.0 / 14, 1e-12);
}

TEST(Bills, EachHourAtItsRate) {
  constexpr std::int64_t kMidnight = 1'795'737'600;
  Bills bills({.from_s = kMidnight, .hours = {{0.1, 100}, {0.4, std::nullopt}}});
  constexpr double kKwh = plan::kJoulesPerKwh;
  bills.see(kMidnight * 1000, {{"chat", {0, 0}}}, {});
  bills.see((kMidnight + 1800) * 1000, {{"chat", {0, kKwh}}}, {{"chat", {0, kKwh}}});
  EXPECT_NEAR(*bills.bills().at("chat").cost, 0.2, 1e-12);
  EXPECT_NEAR(*bills.bills().at("chat").co2_g, 200, 1e-9);
  bills.see((kMidnight + 5400) * 1000, {{"chat", {0, 2 * kKwh}}}, {{"chat", {0, kKwh}}});
  EXPECT_NEAR(*bills.bills().at("chat").cost, 0.6, 1e-12);
  EXPECT_EQ(bills.bills().at("chat").co2_g, std::nullopt) << "no grams were said for that hour";
  bills.see((kMidnight + 9000) * 1000, {{"chat", {0, 3 * kKwh}}},
            {{"chat", {0, kKwh}}});
  EXPECT_EQ(bills.bills().at("chat").cost, std::nullopt) << "the tariff has ended";
}

}  // namespace
}  // namespace partita::control
