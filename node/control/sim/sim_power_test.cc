// The node's power policy in simulated days: a cap that binds, clocks as low as the SLOs allow, a
// driver that denies, an agent that is killed. Watts are those of the boards' own meters, SLOs are
// judged by verify, which knows nothing of who chose the clocks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "act/power_guard.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/sim/testing/test_world.h"
#include "drivers/sim/figures.h"
#include "forms/power_forms.h"
#include "verify/power.h"

namespace partita::control {
namespace {

struct PowerKilled {};

constexpr double kLowestMhz = 705, kClockStepMhz = 105, kHighestMhz = 1410;
constexpr double kMemoryShare = 0.2;  // of the time, which clocks do not change

// The response table of the simulated A100, as somebody would measure it there: latencies of the
// profile at the highest clock, watts by the formula of docs/drivers.md.
plan::ResponseTable measured_table(const hw::GpuModel& gpu, const profile::ProfileTable& profiles) {
  const drivers::sim::Figures& board = drivers::sim::figures_of(gpu);
  const auto watts = [&](double mhz, double busy) {
    const double f = mhz / board.sm_max, volts = 0.65 + 0.35 * f;
    return board.idle_w + (board.limit_w - board.idle_w) * (0.08 + busy) * f * volts * volts;
  };
  plan::ResponseTable table;
  table.gpu = gpu.name;
  table.units_in = {gpu.compute_slices};
  table.idle = {1.0 * board.idle_w};
  table.source = "the simulated board";
  for (double mhz = kLowestMhz; mhz <= kHighestMhz; mhz += kClockStepMhz)
    table.clocks.push_back({{mhz}, {watts(mhz, 0)}});
  for (const char* const name : {"bert", "resnet50"}) {
    const profile::WorkloadProfile& workload = profiles.at(name);
    plan::ModelResponse& model = table.models.emplace_back();
    model.model = name;
    for (const plan::ClockIdle& clock : table.clocks)
      for (const int units : {1, 2, 3, 4, 7})
        for (int batch = 1; profile::find_point(workload, 1, batch, 1) != nullptr; batch *= 2) {
          const auto* point = profile::find_point(workload, units, batch, 1);
          CHECK(point != nullptr);
          const double slower = kMemoryShare + (1 - kMemoryShare) * kHighestMhz / clock.clock.value;
          model.points.push_back({clock.clock,
                                  units,
                                  batch,
                                  point->latency * slower,
                                  point->throughput / slower,
                                  {watts(clock.clock.value, units / 7.0)}});
        }
  }
  return table;
}

WeeksOptions power_day(std::uint64_t seed) {
  WeeksOptions options = weeks_of_tests(
      "day", 2, 1, seed,
      "services:\n"
      "  - {name: day, model: resnet50, rate_rps: 900, slo_ms: 250, percentile: 99}\n"
      "  - {name: night, model: bert, rate_rps: 15, slo_ms: 5000, percentile: 99}\n");
  options.world.max_processes = 1;
  options.world.power_tables = {measured_table(a100_of_tests().gpu, a100_of_tests().profiles)};
  options.world.settings.look_s = 20;
  return options;
}

// A day, and what was seen in it.
class PowerDay {
 public:
  explicit PowerDay(WeeksOptions options, double chance = 0)
      : table_(options.world.power_tables.front()), rng_(Rng(options.seed).split(9)) {
    // The day begins as somebody left the boards.
    for (int gpu = 0; gpu < 2; ++gpu) {
      const auto set = options.machine.set_power(gpu, kBefore, 0);
      CHECK(set.has_value());
    }
    auto begun = SimWeeks::begin(std::move(options));
    CHECK(begun.has_value());
    weeks_ = *std::move(begun);
    weeks_->node().at_call = [this, chance] {
      if (chance > 0 && rng_.uniform() < chance) throw PowerKilled{};
    };
    weeks_->add_doors = [this](AgentDoors& doors) {
      doors.telemetry = true;
      doors.notify = [this](const LoopNotice& notice) { ++told[notice.sentence]; };
    };
  }

  void play(double until_h = 23) {
    for (bool on = true; on && static_cast<double>(node().now_ns()) < until_h * 3.6e12;) {
      try {
        on = weeks_->step();
        look();
      } catch (const PowerKilled&) {
        ++kills;
        weeks_->drop_agent();
      }
    }
    weeks_->node().at_call = {};
  }
  SimNode& node() { return weeks_->node(); }
  SimWeeks& weeks() { return *weeks_; }
  device::PowerSettings settings(int gpu) {
    const auto now = node().boards().driver().power_settings(gpu);
    CHECK(now.has_value());
    return now->now;
  }
  double attainment(std::size_t service) {
    const SimTally& tally = node().gateway().tally(service);
    return tally.in_slo / tally.arrived;
  }

  static inline const device::PowerSettings kBefore{Watts{390}, device::ClockRange{{210}, {1410}}};
  std::map<std::string, int> told;
  int kills = 0, judged = 0, low = 0;
  double most_watts = 0, most_board = 0;  // of the node and of a board, at a look
  std::vector<std::string> late;          // what the judge says

 private:
  void look() {
    double watts = 0;
    for (int gpu = 0; gpu < 2; ++gpu)
      if (const auto sample = node().boards().driver().telemetry(gpu)) {
        watts += sample->power->value;
        most_board = std::max(most_board, sample->power->value);
      }
    most_watts = std::max(most_watts, watts);
    const Snapshot* now = weeks_->snapshot();
    if (now == nullptr || now->current) return;
    for (const device::GpuState& gpu : now->state.gpus) judge(*now, gpu);
  }

  // What runs on the GPU now, at its clock and today's rates, before the judge of `power verify`.
  void judge(const Snapshot& now, const device::GpuState& gpu) {
    const auto clocks = settings(gpu.index).clocks;
    if (!clocks || clocks->low != clocks->high) return;
    plan::PowerProblem problem{.table = table_, .services = {}};
    plan::PowerPlan plan;
    plan::PowerGpu& one = plan.gpus.emplace_back();
    const auto at =
        std::ranges::lower_bound(table_.clocks, clocks->high, {}, &plan::ClockIdle::clock);
    ASSERT_NE(at, table_.clocks.end());
    one.clock = at->clock;
    for (const actuate::AssignedSegment& segment : now.assignment.segments) {
      if (segment.gpu_uuid != gpu.uuid) continue;
      const auto& services = node().services();
      for (std::size_t s = 0; s < services.size(); ++s) {
        const plan::Service& wanted = services[s].wanted;
        if (wanted.name != segment.service || node().ready_rps(s) <= 0) continue;
        const double rate = node().rate(s) * segment.throughput_rps / node().ready_rps(s);
        if (rate > segment.throughput_rps) return;  // more than the plan is for: no clock helps
        problem.services.push_back(
            {segment.device, wanted.model, {rate}, wanted.slo, wanted.percentile});
        const auto instance = std::ranges::find_if(
            gpu.instances, [&](const device::Instance& i) { return i.uuid() == segment.device; });
        if (instance == gpu.instances.end()) return;
        int batch = 1;  // the largest that was measured
        for (const plan::PowerPoint& point : table_.find(wanted.model)->points)
          if (point.batch <= segment.batch) batch = std::max(batch, point.batch);
        one.shares.push_back({segment.device, instance->gpcs, batch, {rate}});
      }
    }
    if (one.shares.empty()) return;
    ++judged;
    low += one.clock.value < kHighestMhz ? 1 : 0;
    for (const plan::Reason& reason : verify::verify(problem, plan))
      if (reason.constraint == "slo" || reason.constraint == "point" ||
          reason.constraint == "units")
        late.push_back(fmt::format("at {:.2f} h: {} {} {}",
                                   static_cast<double>(node().now_ns()) / 3.6e12, reason.constraint,
                                   reason.subject, reason.detail));
  }

  plan::ResponseTable table_;
  Rng rng_;
  std::unique_ptr<SimWeeks> weeks_;
};

TEST(SimPower, TheTableIsOne) {
  const WeeksOptions options = power_day(1);
  const plan::ResponseTable& table = options.world.power_tables.front();
  const auto read =
      forms::parse_power_table("t.csv", forms::power_table_csv(table), {table.gpu, table.units_in});
  ASSERT_TRUE(read) << to_string(read.error());
}

TEST(SimPower, ClocksFallAsFarAsTheSlosAllowAndArePutBack) {
  PowerDay without(power_day(2));
  without.play();
  WeeksOptions options = power_day(2);
  options.world.settings.power.clocks = Clocks::slo;
  PowerDay with(std::move(options));
  with.play();
  EXPECT_GT(with.judged, 1000);
  EXPECT_GT(with.low, with.judged / 2);
  // A rate that jumps between two looks may be late until the next one; hardly ever.
  EXPECT_LE(with.late.size(), static_cast<std::size_t>(with.judged) / 200)
      << with.late.size() << " of " << with.judged << ": " << with.late.front();
  for (const std::size_t s : {0U, 1U}) {
    EXPECT_GE(with.attainment(s), without.attainment(s) - 0.002) << without.attainment(s);
  }
  EXPECT_LT(with.node().boards().energy_j(), 0.9 * without.node().boards().energy_j());
  RecordProperty("kilojoules", static_cast<int>(with.node().boards().energy_j() / 1e3));
  RecordProperty("kilojoules_without", static_cast<int>(without.node().boards().energy_j() / 1e3));
  RecordProperty("attained_ppm", static_cast<int>(1e6 * with.attainment(0)));
  RecordProperty("attained_ppm_without", static_cast<int>(1e6 * without.attainment(0)));
  RecordProperty("judged", with.judged);
  RecordProperty("late", static_cast<int>(with.late.size()));
  EXPECT_EQ(without.settings(0), PowerDay::kBefore);  // no policy, nothing touched
  ASSERT_TRUE(with.weeks().agent()->end());
  for (const int gpu : {0, 1}) EXPECT_EQ(with.settings(gpu), PowerDay::kBefore) << gpu;
}

TEST(SimPower, ACapThatBindsHolds) {
  PowerDay free(power_day(3));
  free.play();
  for (const Clocks clocks : {Clocks::slo, Clocks::driver}) {
    if (clocks == Clocks::driver && test_rounds(2) < 2) continue;
    SCOPED_TRACE(static_cast<int>(clocks));
    WeeksOptions options = power_day(3);
    options.world.settings.power.clocks = clocks;
    constexpr double kCapW = 310;
    options.world.settings.power.cap_w = kCapW;
    PowerDay day(std::move(options));
    day.play();
    // An idle board cannot be limited below 100 W, so the other has less than it would take.
    EXPECT_GT(free.most_board, kCapW - 100) << "it does not bind";
    EXPECT_LE(day.most_board, kCapW - 100 + 1e-6);
    EXPECT_LE(day.most_watts, kCapW + 1e-6);
    EXPECT_LE(day.settings(0).limit->value + day.settings(1).limit->value, kCapW);
    for (const std::size_t s : {0U, 1U})
      EXPECT_GE(day.attainment(s), free.attainment(s) - 0.005) << free.attainment(s);
    ASSERT_TRUE(day.weeks().agent()->end());
    for (const int gpu : {0, 1}) EXPECT_EQ(day.settings(gpu), PowerDay::kBefore) << gpu;
  }
}

TEST(SimPower, ADriverThatDeniesIsToldOnceAndLeftAlone) {
  WeeksOptions options = power_day(4);
  options.world.settings.power.clocks = Clocks::slo;
  options.world.settings.power.cap_w = 500;
  options.power_rights = drivers::sim::PowerRights::nobody;
  PowerDay day(std::move(options));
  day.play();
  int denied = 0;
  for (const auto& [sentence, times] : day.told)
    if (sentence.find("may not be set here") != std::string::npos) denied += times;
  EXPECT_EQ(denied, 1);
  for (const int gpu : {0, 1}) EXPECT_EQ(day.settings(gpu), PowerDay::kBefore);
  for (const std::size_t s : {0U, 1U}) EXPECT_GE(day.attainment(s), 0.985);
}

// A table knows one process per instance: more are said once, the boards run as fast as they can.
TEST(SimPower, SeveralProcessesOnAnInstanceAreSaid) {
  WeeksOptions options = power_day(5);
  options.world.settings.power.clocks = Clocks::slo;
  options.world.max_processes = 3;
  PowerDay day(std::move(options));
  day.play(6);
  std::set<int> several;
  for (const actuate::AssignedSegment& one : day.node().assignment().segments)
    if (one.processes > 1)
      for (const int gpu : {0, 1})
        if (day.weeks().snapshot()->state.gpus[static_cast<std::size_t>(gpu)].uuid == one.gpu_uuid)
          several.insert(gpu);
  ASSERT_FALSE(several.empty()) << "the plan has one process on each instance";
  for (const int gpu : several) {
    EXPECT_EQ(day.settings(gpu).clocks, std::nullopt) << gpu;
    int told = 0;
    for (const auto& [sentence, times] : day.told)
      if (sentence.starts_with(fmt::format("gpu {} runs as fast as it can:", gpu))) told += times;
    EXPECT_EQ(told, 1) << gpu;
  }
}

// Killed at any call; then one without a policy: what was there before the first of them is back.
TEST(SimPower, WhatWasBeforeSurvivesKills) {
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(test_rounds(2)); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    WeeksOptions options = power_day(seed);
    options.world.settings.power.clocks = seed % 2 == 0 ? Clocks::slo : Clocks::fixed;
    options.world.settings.power.clock_mhz = seed % 2 == 0 ? 0 : 1005;
    options.world.settings.power.cap_w = 400;
    PowerDay day(std::move(options), 1.0 / 60);
    day.play();
    kills += day.kills;
    EXPECT_NE(day.settings(0), PowerDay::kBefore) << "nothing was set";
    if (seed % 2 == 1) {
      EXPECT_EQ(day.settings(1).clocks, (device::ClockRange{{1005}, {1005}}));
    }
    day.weeks().drop_agent();
    day.weeks().options().world.settings.power = {};
    day.play(23.5);
    for (const int gpu : {0, 1}) EXPECT_EQ(day.settings(gpu), PowerDay::kBefore) << gpu;
    EXPECT_FALSE(day.weeks().agent()->memory().power_held);
  }
  EXPECT_GT(kills, 0);
}

}  // namespace
}  // namespace partita::control
