#include "heat/dtm/dtm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/index.h"
#include "heat/network.h"
#include "heat/rom.h"
#include "heat/dtm/dtm_example.h"
#include "heat/dtm/dtm_forms.h"

namespace partita::dtm {
namespace {

// Two blocks side by side on a small cooler, a coarse grid: quick, and heat goes both ways.
thermal::Floorplan two_blocks() {
  thermal::Floorplan plan;
  plan.width = 12e-3;
  plan.height = 6e-3;
  plan.blocks = {{"left", 6e-3, 6e-3, 0, 0}, {"right", 6e-3, 6e-3, 6e-3, 0}};
  return plan;
}

thermal::ReducedModel small_model() {
  const auto network =
      thermal::make_network(thermal::one_die(example_package(), two_blocks()), {8, 16, false});
  EXPECT_TRUE(network);
  auto model = thermal::reduce(*network, Seconds{1e-3});
  EXPECT_TRUE(model) << to_string(model.error());
  return *std::move(model);
}

DtmCase small_case() {
  DtmCase dtm;
  dtm.idle_watts = {4, 4};
  return dtm;
}

HotWork small_work(double memory_share) {
  return {"work", {{14, 6}, {10, 6}}, Seconds{0.02}, Seconds{1.5}, memory_share};
}

TEST(Clocks, AreThoseOfTheDissertation) {
  const ClockTable table = pascal_clocks();
  EXPECT_EQ(table.mhz.size(), 17u);
  EXPECT_EQ(table.mhz.front(), 131);
  EXPECT_EQ(table.mhz.back(), 1700);
  EXPECT_NEAR(table.volts(0), 0.65, 1e-12);
  EXPECT_NEAR(table.volts(16), 1.06, 1e-12);
}

TEST(Caps, ByHand) {
  EXPECT_NEAR(cap_of_own_maximum(273.15 + 80, 25), 273.15 + 60, 1e-9);
  EXPECT_NEAR(cap_of_rise(353.15, 318.15, 20), 318.15 + 28, 1e-9);
}

TEST(Dtm, WithoutACapTheWorkTakesItsTimeAndItsEnergyIsTheSumOfItsPowers) {
  const auto model = small_model();
  const DtmRun run = run_dtm(model, small_case(), small_work(0.3), 1e9, Governing::step);
  EXPECT_TRUE(run.finished);
  EXPECT_NEAR(run.seconds, 1.5, 1e-9);
  // 37 pairs of rows of 20 ms, and the first row once more.
  EXPECT_NEAR(run.energy_j, 1.5 * 8 + 37 * 0.02 * (20 + 16) + 0.02 * 20, 1e-6);
  EXPECT_EQ(run.over_cap_s, 0);
  EXPECT_NEAR(run.clock_share.back(), 1, 1e-12);
}

// Held at the lowest clock by a cap that nothing meets: time and energy in closed form.
TEST(Dtm, ACapThatNoClockMeetsCostsWhatTheLowestClockCosts) {
  const auto model = small_model();
  DtmCase dtm = small_case();
  const HotWork work = small_work(0.25);
  const double floor = settled_hottest(model, dtm, work, 0);
  for (const double below : {5.0, 15.0}) {
    const DtmRun run =
        run_dtm(model, dtm, work, idle_hottest(model, dtm) - below, Governing::predictive);
    const double slower = 0.25 + 0.75 * 1700 / 131;
    EXPECT_NEAR(run.seconds / 1.5, slower, 0.01 * slower);  // the plateau: the same for both
    EXPECT_NEAR(run.over_cap_s, run.seconds, 1e-9);
    const double volts = std::pow(0.65 / 1.06, 2);
    const double idle = 8 * (0.6 + 0.4 * 131 / 1700 * volts);
    EXPECT_NEAR(run.energy_j, idle * run.seconds + volts * (37 * 0.02 * 36 + 0.02 * 20), 0.5);
    EXPECT_GT(run.max_k, idle_hottest(model, dtm) - below);
    EXPECT_NEAR(run.mean_k, floor, 3);
  }
}

TEST(Dtm, EveryGovernorMeetsACapThatCanBeMetAndThePredictiveOneNeverPassesIt) {
  const auto model = small_model();
  const DtmCase dtm = small_case();
  const HotWork work = small_work(0.1);
  const DtmRun free = run_dtm(model, dtm, work, 1e9, Governing::none);
  const double cap = cap_of_rise(free.max_k, model.ambient(), 15);
  ASSERT_GT(cap, settled_hottest(model, dtm, work, 0));
  const DtmRun step = run_dtm(model, dtm, work, cap, Governing::step);
  const DtmRun pid = run_dtm(model, dtm, work, cap, Governing::pid);
  const DtmRun predictive = run_dtm(model, dtm, work, cap, Governing::predictive);
  for (const DtmRun* run : {&step, &pid, &predictive}) {
    EXPECT_TRUE(run->finished);
    EXPECT_LT(run->max_k, cap + 1);
    EXPECT_GT(run->seconds, free.seconds);
    EXPECT_NEAR(std::accumulate(run->clock_share.begin(), run->clock_share.end(), 0.0), 1, 1e-9);
    EXPECT_NEAR(run->work_s, 1.5, 1e-9);
  }
  EXPECT_EQ(predictive.over_cap_s, 0);
  EXPECT_LT(predictive.max_k, cap + 1e-9);
  EXPECT_LE(predictive.seconds, step.seconds);
  // Powers taken 30 % too low let it pass the cap.
  DtmCase wrong = dtm;
  wrong.power_error = -0.3;
  EXPECT_GT(run_dtm(model, wrong, work, cap, Governing::predictive).over_cap_s, 0);
}

// The predictive run adds up responses where the others ask the model: the same temperatures.
TEST(Dtm, PredictedTemperaturesAreTheModels) {
  const auto model = small_model();
  const DtmRun asked = run_dtm(model, small_case(), small_work(0.2), 1e9, Governing::none);
  const DtmRun added = run_dtm(model, small_case(), small_work(0.2), 1e9, Governing::predictive);
  EXPECT_NEAR(added.max_k, asked.max_k, 1e-9);
  EXPECT_NEAR(added.mean_k, asked.mean_k, 1e-9);
}

TEST(Dtm, MemoryBoundWorkLosesLessTimeAndSavesEnergy) {
  const auto model = small_model();
  DtmCase dtm = small_case();
  dtm.idle_watts = {1, 1};
  const HotWork bound = small_work(0.95);
  const DtmRun free = run_dtm(model, dtm, bound, 1e9, Governing::none);
  const DtmRun capped = run_dtm(model, dtm, bound, cap_of_rise(free.max_k, model.ambient(), 30),
                                Governing::predictive);
  EXPECT_LT(capped.seconds / free.seconds, 1.3);
  EXPECT_LT(capped.energy_j, 0.9 * free.energy_j);
}

TEST(Dtm, TheTenantThatHeatsIsTheOneThatThrottles) {
  const auto model = small_model();
  DtmCase dtm = small_case();
  dtm.tenants = {{"hot", {0}}, {"cool", {1}}};
  const HotWork work = {"both", {{20, 2}}, Seconds{0.02}, Seconds{1}, 0.1};
  const DtmRun free = run_dtm(model, dtm, work, 1e9, Governing::none);
  EXPECT_NEAR(free.tenants[0].energy_j, 20, 1e-6);
  EXPECT_NEAR(free.tenants[1].energy_j, 2, 1e-6);
  EXPECT_EQ(free.tenants[0].throttle_share, 0);
  const DtmRun capped =
      run_dtm(model, dtm, work, cap_of_rise(free.max_k, model.ambient(), 20), Governing::step);
  EXPECT_NEAR(capped.tenants[0].throttle_share + capped.tenants[1].throttle_share, 1, 1e-9);
  EXPECT_GT(capped.tenants[0].throttle_share, 20.0 / 22);  // it is also nearer to the hottest block
  // Each alone in the model gives the shares of the rise: superposition.
  const auto& response = model.steady_response();
  EXPECT_GT(response[0][0], response[0][1]);
}

// Moments are of the run itself: evenly spread, and the tenants' parts add up to the rise when all
// power is theirs.
TEST(Dtm, MomentsAreThoseOfTheRun) {
  const auto model = small_model();
  DtmCase dtm = small_case();
  dtm.idle_watts = {0, 0};
  dtm.tenants = {{"hot", {0}}, {"cool", {1}}};
  const HotWork work = {"both", {{20, 2}}, Seconds{0.02}, Seconds{1}, 0.1};
  const DtmRun bare = run_dtm(model, dtm, work, model.ambient() + 8, Governing::step);
  EXPECT_TRUE(bare.moments.empty());
  for (const std::size_t most : {std::size_t{100}, std::size_t{100'000}}) {
    dtm.moments = most;
    const DtmRun run = run_dtm(model, dtm, work, model.ambient() + 8, Governing::step);
    EXPECT_EQ(run.energy_j, bare.energy_j) << "watching changes nothing";
    ASSERT_LE(run.moments.size(), most);
    ASSERT_GE(run.moments.size(), std::min<std::size_t>(most / 2, run.epochs));
    double before = 0, longest = 0, shortest = 1e9, hottest = 0;
    for (const DtmMoment& moment : run.moments) {
      longest = std::max(longest, moment.at_s - before);
      shortest = std::min(shortest, moment.at_s - before);
      before = moment.at_s;
      hottest = std::max(hottest, moment.hottest_k);
      ASSERT_EQ(moment.rises_k.size(), 2u);
      EXPECT_NEAR(moment.rises_k[0] + moment.rises_k[1], moment.hottest_k - model.ambient(), 1e-6);
      EXPECT_GT(moment.rises_k[0], moment.rises_k[1]);
    }
    EXPECT_LE(before, run.seconds + 1e-12);
    EXPECT_LE(longest, 1.01 * shortest + 1e-3) << "the last epoch may be short";
    EXPECT_NEAR(hottest, run.max_k, most > 1000 ? 1e-12 : 0.5);
  }
}

TEST(Dtm, WhatCannotBeIsRefused) {
  const auto model = small_model();
  const DtmCase good = small_case();
  const HotWork work = small_work(0.1);
  EXPECT_TRUE(check_dtm(model, good, work));
  DtmCase bad = good;
  bad.idle_watts = {1};
  EXPECT_FALSE(check_dtm(model, bad, work));
  bad = good;
  bad.clocks.mhz = {200, 131};
  EXPECT_FALSE(check_dtm(model, bad, work));
  bad = good;
  bad.tenants = {{"a", {0}}, {"b", {0}}};
  EXPECT_FALSE(check_dtm(model, bad, work));
  HotWork negative = work;
  negative.rows[0][0] = -1;
  EXPECT_FALSE(check_dtm(model, good, negative));
  HotWork slow = work;
  slow.memory_share = 1.5;
  EXPECT_FALSE(check_dtm(model, good, slow));
}

TEST(Example, Has66BlocksAndTheIdlePowerOfTheDissertation) {
  const thermal::Floorplan plan = example_plan();
  EXPECT_EQ(plan.blocks.size(), 66u);
  double area = 0;
  for (const thermal::Block& block : plan.blocks) area += block.width * block.height;
  EXPECT_NEAR(area, plan.width * plan.height, 1e-12);
  const std::vector<double> idle = example_idle(plan);
  EXPECT_NEAR(std::accumulate(idle.begin(), idle.end(), 0.0), 17.4, 1e-9);
  EXPECT_EQ(example_workloads(plan).size(), 8u);
}

TEST(DtmForms, ComeBackAsWritten) {
  StatedDtm study{"celsius", 45, 52.5, 1, 0, 66, 267, 1000, {{"w", 0.1, 4, 230, 77, 53}}, {}};
  StatedDtmRun run;
  run.workload = "w";
  run.governor = "step";
  run.percent = 20;
  run.cap_c = 61.6;
  run.slowdown = 1.9;
  run.clocks = {{800, 0.25}, {900, 0.75}};
  run.tenants = {{"a", 12, 0.6}, {"b", 8, 0.4}};
  study.runs = {run};
  const auto again = parse_dtm("d.json", dtm_json(study));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, study);
}

// As a run was before its parts were worked out beforehand: every epoch asks the model with powers
// of its own, a copy of the model says what would be, and every tenant has its powers anew.
struct PlainRun {
  double seconds = 0, work_s = 0, energy_j = 0, max_k = 0, over_cap_s = 0;
  std::vector<double> tenant_j, tenant_lost;
};

PlainRun plainly(const thermal::ReducedModel& model, const DtmCase& dtm, const HotWork& work,
                 double cap, Governing governing) {
  const auto governor = make_governor(governing, {}, dtm.clocks.mhz, cap, model.interval());
  const double epoch = model.interval().value, top = dtm.clocks.mhz.back();
  const int last = static_cast<int>(dtm.clocks.mhz.size()) - 1;
  thermal::ReducedModel now = model;
  now.settle(dtm.idle_watts);
  std::vector<thermal::ReducedModel> own(dtm.tenants.size(), model);
  for (auto& one : own) one.start_uniform(model.ambient());
  PlainRun run;
  run.tenant_j.assign(own.size(), 0);
  run.tenant_lost.assign(own.size(), 0);
  const auto rate = [&](int f) {
    return 1 / (work.memory_share + (1 - work.memory_share) * top / dtm.clocks.mhz[at(f)]);
  };
  const auto watts = [&](int f, const std::vector<double>& row) {
    const double volts = std::pow(dtm.clocks.volts(f) / dtm.clocks.volts(last), 2);
    std::vector<double> sum;
    for (std::size_t b = 0; b < row.size(); ++b)
      sum.push_back(
          (1 - dtm.idle_clocked + dtm.idle_clocked * dtm.clocks.mhz[at(f)] / top * volts) *
              dtm.idle_watts[b] +
          rate(f) * volts * row[b]);
    return sum;
  };
  while (run.work_s < work.work.value * (1 - 1e-9)) {
    const auto& row =
        work.rows[static_cast<std::size_t>(run.work_s / work.row.value + 1e-9) % work.rows.size()];
    const std::vector<double> before = now.block_temperatures();
    std::vector<double> predicted;
    for (int f = 0; governing == Governing::predictive && f <= last; ++f) {
      thermal::ReducedModel copy = now;
      copy.step(watts(f, row));
      const auto kelvin = copy.block_temperatures();
      predicted.push_back(*std::ranges::max_element(kelvin));
    }
    const int f = governor->next({*std::ranges::max_element(before), predicted});
    const double seconds =
        std::min(1.0, (work.work.value - run.work_s) / (rate(f) * epoch)) * epoch;
    now.step(watts(f, row));
    const auto kelvin = now.block_temperatures();
    const auto hot = std::ranges::max_element(kelvin);
    run.max_k = std::max(run.max_k, *hot);
    run.over_cap_s += *hot > cap ? seconds : 0;
    run.seconds += seconds;
    run.work_s += rate(f) * seconds;
    for (const double value : watts(f, row)) run.energy_j += value * seconds;
    double all = 0;
    std::vector<double> rises;
    for (std::size_t t = 0; t < own.size(); ++t) {
      std::vector<double> part(row.size(), 0);
      const double volts = std::pow(dtm.clocks.volts(f) / dtm.clocks.volts(last), 2);
      for (const int b : dtm.tenants[t].blocks) part[at(b)] = rate(f) * volts * row[at(b)];
      for (const double value : part) run.tenant_j[t] += value * seconds;
      own[t].step(part);
      rises.push_back(own[t].block_temperatures()[static_cast<std::size_t>(hot - kelvin.begin())] -
                      model.ambient());
      all += rises.back();
    }
    for (std::size_t t = 0; t < own.size() && f < last; ++t)
      run.tenant_lost[t] += (1 - rate(f)) * seconds * rises[t] / all;
  }
  return run;
}

TEST(Dtm, IsAsItWasBeforeItsPartsWereWorkedOutBeforehand) {
  const auto model = small_model();
  DtmCase dtm = small_case();
  dtm.tenants = {{"a", {0}}, {"b", {1}}};
  const HotWork work = small_work(0.3);
  const double most = run_dtm(model, dtm, work, 1e9, Governing::none).max_k;
  for (const Governing governing : {Governing::step, Governing::pid, Governing::predictive}) {
    const double cap = cap_of_rise(most, model.ambient(), 15);
    const DtmRun run = run_dtm(model, dtm, work, cap, governing);
    const PlainRun plain = plainly(model, dtm, work, cap, governing);
    EXPECT_NEAR(run.seconds, plain.seconds, 1e-12 * plain.seconds);
    EXPECT_NEAR(run.energy_j, plain.energy_j, 1e-12 * plain.energy_j);
    EXPECT_NEAR(run.max_k, plain.max_k, 1e-12 * plain.max_k);
    EXPECT_NEAR(run.over_cap_s, plain.over_cap_s, 1e-12);
    const double lost = plain.tenant_lost[0] + plain.tenant_lost[1];
    ASSERT_GT(lost, 0);
    for (std::size_t t = 0; t < 2; ++t) {
      EXPECT_NEAR(run.tenants[t].energy_j, plain.tenant_j[t], 1e-12 * plain.energy_j);
      EXPECT_NEAR(run.tenants[t].throttle_share, plain.tenant_lost[t] / lost, 1e-9);
    }
  }
}

}  // namespace
}  // namespace partita::dtm
