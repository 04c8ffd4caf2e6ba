#include "decide/day.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rng.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "decide/day_change.h"
#include "decide/serving_inputs.h"
#include "plan/digest.h"
#include "profile/readers.h"
#include "profile/testing/published.h"
#include "sim/serving.h"
#include "verify/serving.h"

namespace partita::decide {
namespace {

using plan::PlannedInstance;
using plan::RateAt;
using testing::ElementsAre;
using testing::HasSubstr;

// One 1g.10gb carries 100 req/s, a 2g.20gb 250, a 7g.80gb 1000.
plan::ServingProblem problem_of(const std::vector<std::vector<RateAt>>& rates) {
  plan::ServingProblem problem;
  for (std::size_t s = 0; s < rates.size(); ++s) {
    plan::Service& service = problem.services.emplace_back();
    service.name = "s" + std::to_string(s);
    service.model = "lm";
    service.rate = Rps{100};
    service.slo = Millis{100};
    service.traffic.rates = rates[s];
  }
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  profile::ProfileTable table;
  table["lm"] = {"lm",
                 {{1, 1, 1, Rps{100}, Millis{10}, {}},
                  {2, 1, 1, Rps{250}, Millis{4}, {}},
                  {7, 1, 1, Rps{1000}, Millis{1}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  return problem;
}

plan::DayPlan day_of(const plan::ServingProblem& problem, double change_time_s = 0) {
  const auto made = plan_day(problem, {{}, Seconds{change_time_s}});
  EXPECT_TRUE(made) << to_string(made.error());
  EXPECT_TRUE(made && made->day);
  return made && made->day ? *made->day : plan::DayPlan{};
}

std::vector<int> gpus_of(const plan::DayPlan& day) {
  std::vector<int> gpus;
  for (const plan::DayPeriod& period : day.periods) gpus.push_back(period.plan.objective.gpus);
  return gpus;
}

TEST(PlanDay, APeriodForEveryRate) {
  // 2000 req/s are two GPUs from 08:00 to 20:00, and one more for the other service; 700 are three
  // quarters of one.
  const auto problem = problem_of({{{480, Rps{2000}}, {1200, Rps{700}}}, {}});
  const plan::DayPlan day = day_of(problem);
  ASSERT_EQ(day.periods.size(), 2u);
  EXPECT_EQ(day.periods[0].from, 480);
  EXPECT_EQ(day.periods[0].to, 1200);
  EXPECT_EQ(day.periods[0].rate, Rps{2100});
  EXPECT_EQ(day.periods[1].from, 1200);
  EXPECT_EQ(day.periods[1].to, 480);
  EXPECT_THAT(gpus_of(day), ElementsAre(3, 1));
  EXPECT_EQ(day.peak_gpus, 3);
  EXPECT_DOUBLE_EQ(day.peak_gpu_hours, 72);
  EXPECT_DOUBLE_EQ(day.gpu_hours, 12 * 3 + 12 * 1);
  // Each plan answers the problem of its time, as --at gives it.
  EXPECT_EQ(day.periods[1].plan.problem_digest, plan::digest(at_minute(problem, 1200)));
  EXPECT_EQ(day.periods[1].plan.problem_digest, plan::digest(at_minute(problem, 0)));
}

TEST(PlanDay, PeriodsAreTheUnionOfTheBreakPoints) {
  const auto problem = problem_of(
      {{{60, Rps{100}}, {120, Rps{200}}}, {{90, Rps{50}}, {120, Rps{50}}, {180, Rps{60}}}});
  std::vector<int> from;
  for (const plan::DayPeriod& period : day_of(problem).periods) from.push_back(period.from);
  // At 120 only one of them changes, and 90 changes the other.
  EXPECT_THAT(from, ElementsAre(60, 90, 120, 180));
  EXPECT_EQ(day_of(problem_of({{{60, Rps{100}}, {120, Rps{100}}}})).periods.size(), 1u);
  const plan::DayPlan steady = day_of(problem_of({{}, {}}));
  EXPECT_TRUE(steady.changes.empty());
  EXPECT_DOUBLE_EQ(steady.gpu_hours, 24);
  EXPECT_DOUBLE_EQ(steady.peak_gpu_hours, 24);
}

TEST(PlanDay, WhatChangesAtNightChangesBackInTheMorning) {
  const plan::DayPlan day = day_of(
      problem_of({{{480, Rps{700}}, {1200, Rps{300}}}, {{480, Rps{500}}, {1200, Rps{100}}}}));
  ASSERT_EQ(day.changes.size(), 2u);
  EXPECT_EQ(day.changes[0].at, 480);
  const auto& up = day.changes[0].changes;
  const auto& down = day.changes[1].changes;
  EXPECT_EQ(up.moved + up.created, down.removed);
  EXPECT_EQ(up.removed, down.moved + down.created);
  EXPECT_EQ(up.kept, down.kept);
  EXPECT_EQ(plan::changes_between(day.periods[0].plan, day.periods[1].plan), down);
}

// No step creates less than what `plan --current` says of it.
TEST(PlanDay, MovesAreCountedAsFromAnyPlanThatRuns) {
  const auto problem = problem_of({{{0, Rps{90}}, {600, Rps{3900}}, {1200, Rps{240}}},
                                   {{0, Rps{500}}, {600, Rps{90}}, {1200, Rps{3700}}}});
  const plan::DayPlan day = day_of(problem);
  ASSERT_EQ(day.periods.size(), 3u);
  int moves = 0;
  for (std::size_t p = 0; p < 3; ++p) {
    const auto again = make_plan_again(at_minute(problem, day.periods[p].from),
                                       day.periods[(p + 2) % 3].plan, std::nullopt, {});
    ASSERT_TRUE(again && again->made.plan);
    const plan::Changes& counted = day.changes[p].changes;
    EXPECT_EQ(plan::changes_between(day.periods[(p + 2) % 3].plan, day.periods[p].plan), counted);
    moves += counted.moved + counted.created;
    if ((**again->made.plan).gpus == day.periods[p].plan.gpus) {
      EXPECT_EQ(again->changes, counted) << p;
    } else if (day.periods[p].plan.objective.gpus == (**again->made.plan).objective.gpus) {
      EXPECT_LE(again->changes.moved + again->changes.created, counted.moved + counted.created);
    }
  }
  EXPECT_GT(moves, 0);
}

int instances_on(const plan::DayPlan& day, std::size_t p) {
  int count = 0;
  for (const plan::PlannedGpu& gpu : day.periods[p].plan.gpus)
    count += static_cast<int>(gpu.instances.size());
  return count;
}

// Every way to let a plan stay for some of the periods is a day of its own, with fewer rates. None
// of them is cheaper, and one plan for all peaks is not either; a GPU beyond those of the peaks is
// paid for by what it saves.
TEST(PlanDay, NoWayToLetPlansStayIsCheaper) {
  constexpr int kMinutes[] = {0, 400, 700, 1100};
  Rng rng(30);
  int stayed = 0, changed = 0;
  for (int round = 0; round < 8; ++round) {
    std::vector<std::vector<RateAt>> rates(2 + rng.below(2));
    const double swing = rng.uniform();  // small ones are not worth a change
    for (auto& service : rates) {
      const double base = 1 + 800 * rng.uniform();
      for (const int minute : kMinutes)
        service.push_back({minute, Rps{base * (1 + swing * rng.uniform())}});
    }
    const plan::DayPlan day = day_of(problem_of(rates), 300);
    ASSERT_EQ(day.periods.size(), 4u);
    EXPECT_LE(day_cost(day), day.peak_gpu_hours + 1e-6);
    EXPECT_LE(plan::most_gpus(day) - day.peak_gpus,
              (day.peak_gpu_hours - day.gpu_hours) / 24 + 1e-9);
    plan::creations(day) + plan::restarts(day) == 0 ? ++stayed : ++changed;
    for (std::size_t p = 0; p < 4; ++p) EXPECT_GT(instances_on(day, p), 0);
    for (unsigned keeps = 1; keeps < 15; ++keeps) {
      auto merged = rates;  // whoever stays has the highest rate of those beside him
      std::size_t first = 0;
      while ((keeps >> first & 1) != 0) ++first;
      for (auto& service : merged) {
        for (std::size_t step = 0; step < 4;) {
          std::size_t length = 1;
          while (step + length < 4 && (keeps >> (first + step + length) % 4 & 1) != 0) ++length;
          Rps most;
          for (std::size_t i = 0; i < length; ++i)
            most = std::max(most, service[(first + step + i) % 4].rate);
          for (std::size_t i = 0; i < length; ++i) service[(first + step + i) % 4].rate = most;
          step += length;
        }
      }
      EXPECT_LE(day_cost(day), day_cost(day_of(problem_of(merged), 300)) + 1e-6)
          << "round " << round << ", " << keeps;
    }
  }
  EXPECT_GT(stayed, 0);
  EXPECT_GT(changed, 0);
}

TEST(PlanDay, ChangesCostTheGpusThatTheyTake) {
  const auto problem = problem_of({{{0, Rps{2000}}, {720, Rps{1000}}}});
  const plan::DayPlan day = day_of(problem, 1800);
  EXPECT_THAT(gpus_of(day), ElementsAre(2, 1));
  ASSERT_EQ(day.changes.size(), 2u);
  // Two GPUs meanwhile: half an hour of one more, at either change.
  EXPECT_EQ(day.changes[0].gpus, 2);
  EXPECT_EQ(day.changes[1].gpus, 2);
  EXPECT_DOUBLE_EQ(day.gpu_hours, 36 + 1);
  const auto late = plan_day(problem_of({{{0, Rps{2000}}, {50, Rps{1000}}}}), {{}, Seconds{1800}});
  ASSERT_FALSE(late);
  EXPECT_EQ(to_string(late.error()),
            "--change-time: the period from 00:00 to 00:50 is shorter than the changes at its "
            "ends, 30 minutes each");
}

TEST(PlanDay, RefusalsNameThePeriod) {
  auto problem = problem_of({{{480, Rps{2500}}, {1200, Rps{900}}}});
  problem.fleet[0].count = 2;
  const auto made = plan_day(problem, {});
  ASSERT_TRUE(made) << to_string(made.error());
  EXPECT_FALSE(made->day);
  ASSERT_FALSE(made->refusals.empty());
  EXPECT_THAT(made->refusals[0].detail, HasSubstr("from 08:00 to"));
}

// ---- the state between two plans ----

PlannedInstance on(const char* profile, int start, const char* service) {
  const int gpcs = profile[0] - '0';
  const double rate = gpcs == 1 ? 100 : gpcs == 2 ? 250 : 1000;
  return {profile, start, service, 1, 1, Rps{rate}, Millis{1000 / rate}};
}

plan::ServingPlan plan_on(std::vector<std::vector<PlannedInstance>> gpus) {
  plan::ServingPlan plan;
  for (std::size_t g = 0; g < gpus.size(); ++g)
    plan.gpus.push_back({static_cast<int>(g), "A100-80GB", std::move(gpus[g])});
  return plan;
}

TEST(BetweenPlans, NothingIsInTheWayOfFreeSlices) {
  const auto problem = problem_of({{}, {}});
  const Between grown = between(
      problem, plan_on({{on("1g.10gb", 0, "s0")}}),
      plan_on({{on("1g.10gb", 0, "s0"), on("2g.20gb", 2, "s1")}, {on("1g.10gb", 0, "s0")}}));
  EXPECT_EQ(grown.stand_ins, 0);
  EXPECT_EQ(grown.gpus, 2);
  EXPECT_EQ(grown.changes.kept, 1);
  EXPECT_EQ(grown.stood_in.gpus, plan_on({{on("1g.10gb", 0, "s0")}}).gpus);
}

TEST(BetweenPlans, WhatIsInTheWayHasStandIns) {
  const auto problem = problem_of({{}, {}});
  // The 2g wants the slices of both 1g. There is room for one of them on its GPU.
  const Between change =
      between(problem,
              plan_on({{on("1g.10gb", 0, "s0"), on("1g.10gb", 1, "s0"), on("2g.20gb", 2, "s1"),
                        on("2g.20gb", 4, "s1")}}),
              plan_on({{on("2g.20gb", 0, "s0"), on("2g.20gb", 2, "s1"), on("2g.20gb", 4, "s1")}}));
  EXPECT_EQ(change.stand_ins, 2);
  EXPECT_EQ(change.gpus, 2);
  ASSERT_EQ(change.stood_in.gpus.size(), 2u);
  EXPECT_THAT(change.stood_in.gpus[0].instances,
              ElementsAre(on("2g.20gb", 2, "s1"), on("2g.20gb", 4, "s1"), on("1g.10gb", 6, "s0")));
  EXPECT_THAT(change.stood_in.gpus[1].instances, ElementsAre(on("1g.10gb", 0, "s0")));
}

TEST(BetweenPlans, ARestartIsStoodInFor) {
  PlannedInstance larger = on("7g.80gb", 0, "s0");
  larger.batch = 2;
  const Between change =
      between(problem_of({{}}), plan_on({{on("7g.80gb", 0, "s0")}}), plan_on({{larger}}));
  EXPECT_EQ(change.changes.restarted, 1);
  EXPECT_EQ(change.stand_ins, 1);
  EXPECT_EQ(change.gpus, 2);
}

TEST(BetweenPlans, ServicesKeepApartMeanwhile) {
  auto problem = problem_of({{}, {}});
  const auto from = plan_on({{on("1g.10gb", 0, "s0")}, {}});
  const auto to = plan_on({{on("1g.10gb", 0, "s1")}});
  EXPECT_EQ(between(problem, from, to).gpus, 1);  // it steps aside on the same GPU
  problem.services[1].avoid = {"s0"};
  EXPECT_EQ(between(problem, from, to).gpus, 2);
}

TEST(BetweenPlans, SparesAreNotLostTogetherMeanwhile) {
  auto problem = problem_of({{}, {}});
  const auto from = plan_on({{on("1g.10gb", 0, "s0")}, {on("1g.10gb", 0, "s0")}});
  const auto to = plan_on({{on("7g.80gb", 0, "s1")}, {on("1g.10gb", 0, "s0")}});
  EXPECT_EQ(between(problem, from, to).gpus, 2);  // beside the other
  problem.survive = 1;
  EXPECT_EQ(between(problem, from, to).gpus, 3);
}

using Multiset = std::map<std::tuple<std::string, std::string, int, int>, int>;
Multiset instances_of(const plan::ServingPlan& plan) {
  Multiset all;
  for (const plan::PlannedGpu& gpu : plan.gpus)
    for (const PlannedInstance& one : gpu.instances)
      ++all[{one.profile, one.service, one.batch, one.processes}];
  return all;
}

// Whether any two that are not the same lie on one slice, with the sizes of the three profiles.
bool overlap(const PlannedInstance& a, const PlannedInstance& b) {
  const auto end = [](const PlannedInstance& one) {
    return one.start + (one.profile[0] == '7' ? 8 : one.profile[0] - '0');
  };
  return !(a == b) && a.start < end(b) && b.start < end(a);
}

// Random days: what is there during a change is the old plan, elsewhere; it and the new plan are on
// the GPUs at once; and it passes the judge under the rates before.
TEST(PlanDay, NoServiceFallsShortThroughAnyChange) {
  Rng rng(12);
  int stand_ins = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<std::vector<RateAt>> rates(2 + rng.below(4));
    for (auto& service : rates)
      for (const int minute : {0, 300, 700, 1100})
        if (rng.below(3) > 0) service.push_back({minute, Rps{1 + 1500 * rng.uniform()}});
    auto problem = problem_of(rates);
    problem.survive = round % 2;
    const plan::DayPlan day = day_of(problem);
    for (std::size_t p = 0; p < day.periods.size() && day.periods.size() > 1; ++p) {
      const auto& before = day.periods[(p + day.periods.size() - 1) % day.periods.size()];
      const auto& after = day.periods[p];
      const Between change = between(problem, before.plan, after.plan);
      stand_ins += change.stand_ins;
      EXPECT_EQ(instances_of(change.stood_in), instances_of(before.plan));
      EXPECT_TRUE(verify::verify(at_minute(problem, before.from), change.stood_in).empty());
      EXPECT_TRUE(verify::verify(at_minute(problem, after.from), after.plan).empty());
      for (const plan::PlannedGpu& old : change.stood_in.gpus)
        for (const plan::PlannedGpu& gpu : after.plan.gpus)
          for (const PlannedInstance& a : old.instances)
            for (const PlannedInstance& b : gpu.instances)
              EXPECT_FALSE(old.index == gpu.index && overlap(a, b)) << a.profile << b.profile;
    }
  }
  EXPECT_GT(stand_ins, 0);
}

// data/scenarios/day.yaml with the published profiles, on as many A100 as needed.
plan::ServingProblem published_day(const plan::SloRule& rule) {
  MemoryFiles files;
  files.content["day.yaml"] = source_text("data/scenarios/day.yaml");
  files.content["profiles.csv"] = profile::native_csv(profile::published_profiles());
  ProblemFiles inputs;
  inputs.services = "day.yaml";
  inputs.profiles = "profiles.csv";
  inputs.gpu = "A100-80GB";
  inputs.rule = plan::to_string(rule);
  const auto problem = load_problem(files, inputs);
  EXPECT_TRUE(problem) << to_string(problem.error());
  return *problem;
}

TEST(PlanDay, ADayOfPublishedModelsNeedsThreeQuartersOfItsPeak) {
  const plan::DayPlan day = day_of(published_day({plan::SloRule::Kind::execution, 0.45}), 300);
  EXPECT_EQ(day.periods.size(), 11u);
  EXPECT_LE(day.gpu_hours, 0.75 * day.peak_gpu_hours);
  EXPECT_EQ(day.peak_gpu_hours, 24 * day.peak_gpus);
}

// In the simulator too: the old plan with its stand-ins under the rates before the change.
TEST(PlanDay, AChangeOfThePublishedDayMissesNoSlo) {
  const auto problem = published_day(plan::SloRule{});
  const plan::DayPlan day = day_of(problem, 300);
  EXPECT_LE(day.gpu_hours, 0.75 * day.peak_gpu_hours);
  const sim::ServingOptions options;
  const int changes = test_rounds(static_cast<int>(day.periods.size()));
  for (std::size_t p = 0; p < static_cast<std::size_t>(changes); ++p) {
    const auto& before = day.periods[(p + day.periods.size() - 1) % day.periods.size()];
    const Between change = between(problem, before.plan, day.periods[p].plan);
    const auto report = sim::simulate(at_minute(problem, before.from), change.stood_in, options);
    ASSERT_TRUE(report) << to_string(report.error());
    for (const sim::ServiceReport& service : report->services)
      // But for what chance does to so many requests, three standard deviations.
      EXPECT_GE(service.slo_attainment,
                0.99 - 3 * std::sqrt(0.99 * 0.01 / static_cast<double>(service.offered)))
          << service.name << " at " << day.periods[p].from;
  }
}

}  // namespace
}  // namespace partita::decide
