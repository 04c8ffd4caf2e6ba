// Telemetry logs whose truth is known: measured joules, tenants, resets, gaps, what comes and goes.
#include "model/energy/from_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "model/energy/energy_forms.h"
#include "model/energy/report.h"

namespace partita::energy {
namespace {

using telemetry::GpuSample;
using telemetry::InstanceSample;
using telemetry::Log;
using telemetry::Sample;
using testing::HasSubstr;

InstanceSample instance(int gi, int slices, double busy) {
  InstanceSample out;
  out.gi_id = gi;
  out.uuid = "MIG-" + std::to_string(gi);
  out.profile = std::to_string(slices) + "g." + std::to_string(10 * slices) + "gb";
  out.compute_slices = slices;
  out.memory_slices = slices == 3 ? 4 : slices;
  out.activity.sm = busy;
  return out;
}

// A board of 7 slices that takes 50 W and 300 W x (slices x activity) / 7, every second.
class Board7 {
 public:
  explicit Board7(int index = 0) {
    gpu_.index = index;
    gpu_.uuid = "GPU-" + std::to_string(index);
    gpu_.model = "H100-80GB-SXM5";
    gpu_.compute_slices = 7;
    gpu_.energy = Joules{12345};
  }
  GpuSample second(std::vector<InstanceSample> instances, double length = 1) {
    gpu_.instances = std::move(instances);
    double watts = 50;
    for (const InstanceSample& one : gpu_.instances)
      watts += 300 * one.activity.sm.value_or(0) * one.compute_slices / 7;
    gpu_.power = Watts{watts};
    gpu_.energy = *gpu_.energy + Joules{watts * length};
    return gpu_;
  }

 private:
  GpuSample gpu_;
};

double tenant(const EnergyReport& report, const std::string& name) {
  for (const auto& one : report.tenants)
    if (one.name == name) return one.energy_j;
  return -1;
}

double sum(const EnergyReport& report) {
  double all = report.idle_j;
  for (const auto& one : report.tenants) all += one.energy_j;
  return all;
}

Tenancy assigned(const std::map<std::string, std::string>& services) {
  Tenancy tenancy;
  for (const auto& [device, service] : services) {
    Tenure tenure;
    tenure.device = device;
    tenure.service = service;
    tenancy.tenures.push_back(tenure);
  }
  return tenancy;
}

EnergyReport report_for(const Log& log, const Tenancy& tenancy, const LedgerOptions& options = {},
                        const ReportOptions& how = {}) {
  const std::vector<Board> boards = measure(log, {});
  return report_of(ledger_of(log, boards, tenancy, options), boards, log.front().at, log.back().at,
                   how);
}

TEST(Attributed, ChatAndSearchGetWhatTheyTook) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 100; ++t)
    log.push_back(
        {{double(t)}, {board.second({instance(1, 4, 0.5), instance(2, 2, t > 50 ? 1 : 0)})}});
  LedgerOptions options;
  options.idle = Watts{50};
  ReportOptions how;
  how.idle = IdlePolicy::unassigned;
  how.requests = {{"chat", 1000}};
  const EnergyReport report =
      report_for(log, assigned({{"MIG-1", "chat"}, {"MIG-2", "search"}}), options, how);
  const double chat = 100 * 300 * 4 * 0.5 / 7, search = 50 * 300 * 2.0 / 7;
  EXPECT_NEAR(report.measured_j, 5000 + chat + search, 1e-5);
  EXPECT_NEAR(tenant(report, "chat"), chat, 1e-3);
  EXPECT_NEAR(tenant(report, "search"), search, 1e-3);
  EXPECT_NEAR(report.idle_j, 5000, 1e-3);
  EXPECT_NEAR(sum(report), report.measured_j, 1e-9 * report.measured_j);
  EXPECT_NEAR(*report.services[0].joules_per_request, chat / 1000, 1e-6);
  EXPECT_NEAR(report.tenants[0].mean_w, chat / 100, 1e-4);
  EXPECT_TRUE(report.notes.empty());
}

TEST(Attributed, IdlePowerIsFoundWhereNothingWorked) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 60; ++t)
    log.push_back({{double(t)}, {board.second({instance(1, 4, t % 20 < 10 ? 0 : 0.7)})}});
  const EnergyReport report = report_for(log, assigned({{"MIG-1", "chat"}}));
  EXPECT_NEAR(report.gpus[0].idle_w, 50, 0.01);
  EXPECT_EQ(report.gpus[0].idle_from, "quiet");
  // By slices: three free slices of idle power are nobody's.
  EXPECT_NEAR(report.idle_j, 60 * 50 * 3.0 / 7, 1);
}

// A board whose counter starts anew, and one that has none but a mean over the last second.
TEST(Attributed, IdlePowerOfABoardThatIsNeverQuiet) {
  Rng rng(4);
  for (const bool varies : {true, false}) {
    Board7 board;
    Log log;
    for (int t = 0; t <= 60; ++t) {
      const double busy = varies ? 0.3 + 0.7 * rng.uniform() : 0.8 + 0.02 * rng.uniform();
      log.push_back({{double(t)}, {board.second({instance(1, 4, busy), instance(2, 3, 0.5)})}});
    }
    const EnergyReport report = report_for(log, {});
    EXPECT_EQ(report.gpus[0].idle_from, varies ? "line" : "lowest");
    if (varies) {
      EXPECT_NEAR(report.gpus[0].idle_w, 50, 0.5);
    }
    EXPECT_NEAR(sum(report), report.measured_j, 1e-6);
  }
}

TEST(Measured, CounterResetAndMeanPower) {
  Board7 board;
  Log log;
  double truth = 0;
  for (int t = 0; t <= 40; ++t) {
    GpuSample gpu = board.second({instance(1, 7, t % 7 / 7.0)});
    if (t > 0) truth += gpu.power->value;
    gpu.power_average = gpu.power;  // constant within each second, so its mean is itself
    if (t > 20) gpu.energy = *gpu.energy - Joules{12345 + 3000};
    log.push_back({{double(t)}, {gpu}});
  }
  std::vector<Board> boards = measure(log, {});
  EXPECT_EQ(boards[0].resets, 1);
  EXPECT_NEAR(boards[0].counted.value, 39, 1e-9);
  EXPECT_NEAR(boards[0].joules(), truth, 0.02 * truth);
  for (Sample& sample : log) sample.gpus[0].energy.reset();
  boards = measure(log, {});
  EXPECT_NEAR(boards[0].integrated.value, 40, 1e-9);
  EXPECT_NEAR(boards[0].joules(), truth, 0.01 * truth);
}

// A ramp, read as a mean over the last second, is half a second late; joined by lines it is exact
// but at the ends, where nothing is known beyond.
TEST(Measured, AveragedReadingsBelongToTheMiddleOfTheirSecond) {
  Log log;
  for (int t = 0; t <= 100; ++t) {
    GpuSample gpu;
    gpu.uuid = "GPU-x";
    const double now = t * 0.2;  // five readings a second
    gpu.power_average = Watts{100 + 10 * (now - 0.5)};
    log.push_back({{now}, {gpu}});
  }
  const Board board = measure(log, {})[0];
  double inner = 0;
  for (const Interval& interval : board.intervals)
    if (interval.from.value >= 2 && interval.from.value < 17.9) inner += interval.joules;
  EXPECT_NEAR(inner, 16 * 100 + 10 * (18 * 18 - 2 * 2) / 2.0, 1e-6);
}

// A counter that is updated every fourth reading: the joules are those of the intervals in which
// power was drawn, and their sum is the counter's.
TEST(Measured, ACounterOfCoarseSteps) {
  Log log;
  double energy = 100, shown = 100;
  std::vector<double> truth;
  for (int t = 0; t <= 40; ++t) {
    GpuSample gpu;
    gpu.uuid = "GPU-x";
    const double watts = t % 6 < 3 ? 300 : 60;
    if (t > 0) truth.push_back(watts * 0.1);
    energy += watts * 0.1;
    if (t % 4 == 0) shown = energy;
    gpu.energy = Joules{shown};
    // Power was the same all through each interval: readings are at its end.
    gpu.power = Watts{watts};
    log.push_back({{t * 0.1}, {gpu}});
  }
  const Board board = measure(log, {})[0];
  ASSERT_EQ(board.intervals.size(), truth.size());
  double apart = 0, all = 0, flat = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    apart += std::abs(board.intervals[i].joules - truth[i]);
    flat += std::abs(i % 4 == 3 ? truth[i - 3] + truth[i - 2] + truth[i - 1] : truth[i]);
    all += truth[i];
  }
  EXPECT_NEAR(board.joules(), all, 1e-9);
  EXPECT_LT(apart, 0.25 * flat);  // what differences of the counter alone would be off by
}

TEST(Measured, AGapIsNobodysAndWithoutCounterInNoFigure) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 20; ++t) log.push_back({{double(t)}, {board.second({instance(1, 7, 1)})}});
  log.push_back({{200}, {board.second({instance(1, 7, 1)}, 180)}});
  EnergyReport report = report_for(log, assigned({{"MIG-1", "chat"}}));
  EXPECT_NEAR(report.measured_j, 200 * 350, 1e-6);
  EXPECT_NEAR(tenant(report, "chat"), 20 * 350, 1e-6);
  EXPECT_NEAR(report.idle_j, 180 * 350, 1e-6);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("180.0 s between samples")));
  for (Sample& sample : log) sample.gpus[0].energy.reset();
  report = report_for(log, assigned({{"MIG-1", "chat"}}));
  EXPECT_NEAR(report.measured_j, 20 * 350, 1e-6);
  EXPECT_EQ(report.gpus[0].unmeasured_s, 180);
}

// Instances that appear and vanish; one that no plan names is a tenant of its own.
TEST(Attributed, InstancesComeAndGo) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 30; ++t) {
    std::vector<InstanceSample> there;
    if (t <= 20) there.push_back(instance(1, 3, 1));
    if (t > 10) there.push_back(instance(5, 1, 1));
    log.push_back({{double(t)}, {board.second(there)}});
  }
  LedgerOptions options;
  options.idle = Watts{50};
  ReportOptions how;
  how.idle = IdlePolicy::unassigned;
  const EnergyReport report = report_for(log, assigned({{"MIG-1", "chat"}}), options, how);
  EXPECT_NEAR(tenant(report, "chat"), 20 * 300 * 3 / 7.0, 1e-3);
  EXPECT_NEAR(tenant(report, "gpu 0, gi 5 (1g.10gb)"), 20 * 300 / 7.0, 1e-3);
  EXPECT_FALSE(report.tenants.back().known && report.tenants.front().known);
  EXPECT_NEAR(sum(report), report.measured_j, 1e-6);
}

// On Ampere a saturated 3g reads 33 % and a saturated 1g 100 %: the 3g took three times as much.
TEST(Attributed, AmpereCountsOneGpc) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 10; ++t) {
    GpuSample gpu = board.second({instance(1, 3, 1), instance(2, 1, 1)});
    gpu.model = "A100-80GB";
    for (InstanceSample& one : gpu.instances) {
      one.activity.sm.reset();
      one.activity.graphics_engine = 1.0 / one.compute_slices;
    }
    log.push_back({{double(t)}, {gpu}});
  }
  LedgerOptions options;
  options.idle = Watts{50};
  options.facts["A100-80GB"] = {7, 8, true};
  ReportOptions how;
  how.idle = IdlePolicy::unassigned;
  how.compare = true;
  const EnergyReport report =
      report_for(log, assigned({{"MIG-1", "big"}, {"MIG-2", "small"}}), options, how);
  EXPECT_NEAR(tenant(report, "big"), 3 * tenant(report, "small"), 1e-3);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("GR_ENGINE_ACTIVE counts one GPC")));
  for (const auto& compared : report.compared) {
    if (compared.rule != "kepler") continue;  // charges the small one three times the big one
    EXPECT_NEAR(compared.tenants[1].energy_j, 3 * compared.tenants[0].energy_j, 1e-3);
  }
  // A reading that one GPC alone cannot give: no correction.
  log[5].gpus[0].instances[0].activity.graphics_engine = 0.9;
  const EnergyReport other =
      report_for(log, assigned({{"MIG-1", "big"}, {"MIG-2", "small"}}), options, how);
  EXPECT_LT(tenant(other, "big"), 2 * tenant(other, "small"));
}

// Two GPUs, one tenant on both; a plan that names places by profile and start.
TEST(Attributed, APlanNamesPlacesOfSeveralGpus) {
  Board7 first(0), second(1);
  Log log;
  for (int t = 0; t <= 10; ++t)
    log.push_back({{double(t)},
                   {first.second({instance(3, 3, 1), instance(4, 3, 0.5)}),
                    second.second({instance(9, 1, 1)})}});
  Tenancy tenancy;
  const auto plan = [&](int gpu, const char* profile, int start, const char* service) {
    Tenure tenure;
    tenure.gpu = gpu;
    tenure.profile = profile;
    tenure.start = start;
    tenure.service = service;
    tenancy.tenures.push_back(tenure);
  };
  plan(0, "3g.30gb", 4, "search");
  plan(0, "3g.30gb", 0, "chat");
  plan(1, "1g.10gb", 0, "chat");
  LedgerOptions options;
  options.idle = Watts{50};
  ReportOptions how;
  how.idle = IdlePolicy::unassigned;
  const double slice = 10 * 300 / 7.0;
  EnergyReport report = report_for(log, tenancy, options, how);
  EXPECT_NEAR(tenant(report, "chat"), 4 * slice, 1e-3);
  EXPECT_NEAR(tenant(report, "search"), 1.5 * slice, 1e-3);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("taken to be numbered as they lie")));
  // The driver says that it is the other way round: no guess is left.
  tenancy.places = {{{"GPU-0", 3}, {"3g.30gb", 4}},
                    {{"GPU-0", 4}, {"3g.30gb", 0}},
                    {{"GPU-1", 9}, {"1g.10gb", 0}}};
  report = report_for(log, tenancy, options, how);
  EXPECT_NEAR(tenant(report, "search"), 3 * slice, 1e-3);
  EXPECT_TRUE(report.notes.empty());
}

// Tasks of a batch one after the other on one instance, the change within an interval.
TEST(Attributed, TasksByTheirTimes) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 20; ++t) log.push_back({{double(t)}, {board.second({instance(1, 7, 1)})}});
  Tenancy tenancy;
  for (const auto& [task, from, to] : {std::tuple{"first", 0.0, 7.5}, {"second", 7.5, 18.0}}) {
    Tenure tenure;
    tenure.gpu = 0;
    tenure.profile = "7g.70gb";
    tenure.start = 0;
    tenure.service = task;
    tenure.from = Seconds{from};
    tenure.to = Seconds{to};
    tenancy.tenures.push_back(tenure);
  }
  const EnergyReport report = report_for(log, tenancy);
  EXPECT_NEAR(tenant(report, "first"), 7.5 * 350, 1e-3);
  EXPECT_NEAR(tenant(report, "second"), 10.5 * 350, 1e-3);
  EXPECT_NEAR(tenant(report, "gpu 0, gi 1 (7g.70gb)"), 2 * 350, 1e-3);
}

// A model fitted to the log itself: idle 50 W, 200 W at full sm, 90 W of the memory.
TEST(Attributed, ByAModelFittedToTheLog) {
  Rng rng(7);
  Log log;
  double joules = 0;
  std::map<std::string, double> truth;
  for (int t = 0; t <= 400; ++t) {
    GpuSample gpu;
    gpu.uuid = "GPU-0";
    gpu.compute_slices = 7;
    double watts = 50;
    for (const auto& [gi, slices, memory] : {std::tuple{1, 4, 4}, {2, 3, 4}}) {
      InstanceSample one = instance(gi, slices, t % 40 == 0 ? 0 : rng.uniform());
      one.memory_slices = memory;
      // One tenant computes, the other reads memory.
      one.activity.dram = *one.activity.sm * (gi == 1 ? 0.1 : 0.9);
      const double own = 200 * *one.activity.sm * slices / 7 + 90 * *one.activity.dram * memory / 8;
      if (t > 0) truth[one.uuid] += own;
      watts += own;
      gpu.instances.push_back(one);
    }
    joules += watts;
    gpu.energy = Joules{joules};
    log.push_back({{double(t)}, {gpu}});
  }
  const std::vector<Board> boards = measure(log, {});
  const auto table = counters_of("log", log, boards, {}, Seconds{2});
  ASSERT_TRUE(table) << to_string(table.error());
  const auto model = fit(*table, {});
  ASSERT_TRUE(model) << to_string(model.error());
  ASSERT_TRUE(check_telemetry_model("log", *model));
  EXPECT_EQ(model->components[0].name, "idle");
  EXPECT_NEAR(model->components[0].joules, 50, 0.01);
  LedgerOptions options;
  options.model = *model;
  ReportOptions how;
  how.rule = SplitRule::model;
  how.idle = IdlePolicy::unassigned;
  const EnergyReport report =
      report_for(log, assigned({{"MIG-1", "computes"}, {"MIG-2", "reads"}}), options, how);
  EXPECT_NEAR(tenant(report, "computes"), truth["MIG-1"], 0.001 * truth["MIG-1"]);
  EXPECT_NEAR(tenant(report, "reads"), truth["MIG-2"], 0.001 * truth["MIG-2"]);
  EXPECT_EQ(report.gpus[0].idle_from, "model");
}

// A board of two clocks, whose watts follow the clock.
Log two_clocks(Rng& rng) {
  Log log;
  double joules = 0;
  for (int t = 0; t <= 400; ++t) {
    GpuSample gpu;
    gpu.uuid = "GPU-0";
    gpu.compute_slices = 7;
    gpu.sm_clock = Mhz{t % 100 < 50 ? 1980.0 : 990.0};
    InstanceSample one = instance(1, 7, t % 40 == 0 ? 0 : rng.uniform());
    one.memory_slices = 8;
    one.activity.dram = rng.uniform();
    joules += 50 + 200 * *one.activity.sm * gpu.sm_clock->value / 1980 + 90 * *one.activity.dram;
    gpu.instances.push_back(one);
    gpu.energy = Joules{joules};
    log.push_back({{double(t)}, {gpu}});
  }
  return log;
}

TEST(Fitted, ToABoardWhoseClockMoves) {
  Rng rng(9);
  const Log log = two_clocks(rng);
  const auto table = counters_of("log", log, measure(log, {}), {}, Seconds{2});
  ASSERT_TRUE(table) << to_string(table.error());
  const auto model = fit(*table, {});
  ASSERT_TRUE(model) << to_string(model.error());
  for (const ComponentCost& cost : model->components) {
    const double truth = cost.name == "idle" ? 50 : cost.name == "sm" ? 200 : 90;
    EXPECT_NEAR(cost.joules, truth, 0.01 * truth) << cost.name;
  }
}

TEST(Attributed, AnInstanceThatDoesNotTellWhatTheModelAsksForIsNamed) {
  Board7 board;
  LedgerOptions options;
  EnergyModel& model = options.model.emplace();
  model.watts = true;
  model.components = {{"idle", 50, 1}, {"sm", 200, 1}, {"tensor", 150, 1}, {"fp64", 0, 0}};
  const auto lacks = [&](int every) {
    Log log;
    for (int t = 0; t <= 100; ++t) {
      std::vector<InstanceSample> there = {instance(1, 4, 0.5), instance(2, 2, 0.9)};
      there[0].activity.tensor = 0.4;
      if (t % every != 0) there[1].activity.tensor = 0.2;
      log.push_back({{double(t)}, {board.second(there)}});
    }
    return ledger_of(log, measure(log, {}), assigned({{"MIG-1", "chat"}, {"MIG-2", "search"}}),
                     options)
        .model_lacks;
  };
  EXPECT_EQ(lacks(1), "search does not tell tensor");  // and fp64 costs nothing
  EXPECT_EQ(lacks(2), "search does not tell tensor");
  EXPECT_EQ(lacks(50), "");  // a reading now and then
}

TEST(EnergyReportForm, IsReadBackAndAddsUpInDigits) {
  Board7 board;
  Log log;
  for (int t = 0; t <= 9; ++t)
    log.push_back(
        {{t * 0.37},
         {board.second({instance(1, 2, 0.31), instance(2, 1, 0.7), instance(3, 1, 0.13)}, 0.37)}});
  ReportOptions how;
  how.compare = true;
  how.co2_g_per_kwh = 380;
  how.price_per_kwh = 0.3;
  how.owners = {{"gpu 0, gi 1 (2g.20gb)", "lab"}, {"gpu 0, gi 3 (1g.10gb)", "lab"}};
  const EnergyReport report = report_for(log, {}, {}, how);
  ASSERT_EQ(report.tenants.size(), 2u);
  const auto read = parse_report("r.json", report_json(report));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(*read, report);
  double micro = std::round(report.idle_j * 1e6);
  for (const auto& one : report.tenants) micro += std::round(one.energy_j * 1e6);
  EXPECT_EQ(micro, std::round(report.measured_j * 1e6));
  EXPECT_NEAR(*report.tenants[0].co2_g, report.tenants[0].energy_j / 3.6e6 * 380, 1e-12);
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("lab"));
  const std::string metrics = report_prometheus(report);
  EXPECT_THAT(metrics, HasSubstr("partita_instance_energy_joules_total{gpu=\"0\",UUID=\"GPU-0\","
                                 "modelName=\"H100-80GB-SXM5\",GPU_I_ID=\"1\","
                                 "GPU_I_PROFILE=\"2g.20gb\""));
}

}  // namespace
}  // namespace partita::energy
