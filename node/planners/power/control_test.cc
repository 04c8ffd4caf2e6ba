#include <gtest/gtest.h>

#include <ranges>

#include "plan/testing/random_power.h"
#include "planners/power/controller.h"
#include "planners/power/modelled.h"
#include "planners/power/policies.h"
#include "planners/power/response.h"

namespace partita::power {
namespace {

// Half serial kernels: 1 ms on one unit, 0.4 on four.
plan::PowerProblem modelled_problem() {
  profile::ModelKernels model{"net", 4, {}};
  for (int k = 0; k < 10; ++k)
    model.kernels.push_back({"k" + std::to_string(k), {1000, 600, 466, 400}});
  plan::PowerProblem problem;
  problem.table = modelled_table("2x2", {2, 2}, {model}, {});
  problem.gating = plan::Gating::unit;
  problem.services = {{"net", "net", Rps{100}, Millis{20}, 95}};
  return problem;
}

// By hand: at half the clock 0.2 of what is above the floor stays and 0.8 doubles.
TEST(Modelled, TimesAndPowersAreThoseOfTheStatedModel) {
  profile::ModelKernels model{"net", 2, {{"k", {2010, 1010}}}};
  ClockModel how;
  how.clocks = {{500}, {1000}};
  how.low_volts = 0.5;
  how.high_volts = 1;
  how.batches = {1, 2};
  const plan::ResponseTable table = modelled_table("1x2", {2}, {model}, how);
  ASSERT_EQ(table.models[0].points.size(), 2u * 2 * 2);
  const plan::PowerPoint& slow = table.models[0].points[2];  // 500 MHz, 2 units, batch 1
  EXPECT_EQ(slow.units, 2);
  EXPECT_NEAR(slow.p95.value, (10 + 1000 * (0.2 + 0.8 * 2)) * 1e-3, 1e-9);
  const double idle = 15 + 2 * (0.35 * 0.5 + 0.65 * 0.5 * 0.25);
  EXPECT_NEAR(table.clocks[0].active_idle.value, idle, 1e-9);
  const double joules = 2 * 2010e-6 * (0.8 * 0.25 + 0.2);
  EXPECT_NEAR(slow.power.value, idle + joules / (slow.p95.value * 1e-3), 1e-9);
  EXPECT_NEAR(table.models[0].points[7].p95.value, 2.01, 1e-9);  // batch 2 on 2 units: as 1 on 1
  EXPECT_TRUE(table.modelled);
}

TEST(Controller, FollowsTheRate) {
  const plan::PowerProblem problem = modelled_problem();
  const auto controller = make_controller(problem, {.policy = "exact"});
  ASSERT_TRUE(controller) << to_string(controller.error());
  const Setting start = (*controller)->start();
  EXPECT_EQ(start.clock, Mhz{1725});
  EXPECT_EQ(start.units, std::vector<int>{4});
  const Setting idle = (*controller)->decide({{0.5}, {{Rps{0}}}});
  EXPECT_EQ(idle.units, std::vector<int>{1});
  EXPECT_LT(idle.clock, start.clock);
  const Setting busy = (*controller)->decide({{1.0}, {{Rps{1e5}}}});
  EXPECT_EQ(busy, start);
}

// Where units and batches are not its to choose only the clock follows; by brute force: the lowest
// clock at which that option carries the rate.
TEST(Controller, KeepsSharesThatAreGiven) {
  plan::PowerProblem problem = modelled_problem();
  problem.gating = plan::Gating::none;
  problem.services[0].rate = {1e-9};
  const auto options = options_of(problem, BatchChoice::any);
  ASSERT_GT(options[0].back().size(), 3u);
  for (const ServiceOption& one : options[0].back()) {
    const GivenShare given{one.units, one.batch};
    const auto controller =
        make_controller(problem, {.guard = 0, .rescue = false, .given = {given}});
    ASSERT_TRUE(controller) << to_string(controller.error());
    for (const double rate : {1.0, 100.0, 500.0, 1000.0, 1500.0, 1e5}) {
      const Setting setting = (*controller)->decide({{0.5}, {{Rps{rate}}}});
      EXPECT_EQ(setting.units, std::vector<int>{given.units});
      EXPECT_EQ(setting.batches, std::vector<int>{given.batch});
      Mhz wanted = problem.table.clocks.back().clock;
      for (const auto& at_clock : options[0] | std::views::reverse)
        for (const ServiceOption& option : at_clock)
          if (option.units == given.units && option.batch == given.batch &&
              option.capacity.value >= rate)
            wanted = problem.table.clocks[option.clock].clock;
      EXPECT_EQ(setting.clock, wanted) << rate;
    }
  }
  for (const std::vector<GivenShare>& wrong :
       {std::vector<GivenShare>{{2, 1}, {2, 1}}, std::vector<GivenShare>{{5, 1}}}) {
    const auto none = make_controller(problem, {.given = wrong});
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message, "");
  }
}

TEST(Controller, ComesToTheRescue) {
  const plan::PowerProblem problem = modelled_problem();
  const auto controller = make_controller(problem, {.policy = "cofris-cu"});
  ASSERT_TRUE(controller);
  const Setting calm = (*controller)->decide({{0.5}, {{Rps{4}, Millis{5}, 0.0}}});
  EXPECT_NE(calm, (*controller)->start());
  EXPECT_EQ((*controller)->decide({{1.0}, {{Rps{4}, Millis{5}, 1000.0}}}), (*controller)->start());
  const auto paper = make_controller(problem, {.policy = "cofris-cu", .guard = 0, .rescue = false});
  EXPECT_NE((*paper)->decide({{1.0}, {{Rps{4}, Millis{500}, 1000.0}}}), (*paper)->start());
}

TEST(Controller, WaitsBeforeItTakesLess) {
  const plan::PowerProblem problem = modelled_problem();
  const auto controller = make_controller(problem, {.policy = "exact", .hysteresis = 3});
  ASSERT_TRUE(controller);
  const plan::Observation quiet{{0.5}, {{Rps{0}}}};
  EXPECT_EQ((*controller)->decide(quiet), (*controller)->start());
  EXPECT_EQ((*controller)->decide(quiet), (*controller)->start());
  EXPECT_NE((*controller)->decide(quiet), (*controller)->start());
}

// With a memory the setting of the last burst stays for so long.
TEST(Controller, RemembersBursts) {
  const plan::PowerProblem problem = modelled_problem();
  const auto controller = make_controller(problem, {.policy = "exact", .memory = {2}});
  ASSERT_TRUE(controller);
  const Setting burst = (*controller)->decide({{0.5}, {{Rps{100}}}});
  for (int poll = 2; poll <= 4; ++poll)
    EXPECT_EQ((*controller)->decide({{0.5 * poll}, {{Rps{0}}}}).clock, burst.clock);
  Setting last = burst;
  for (int poll = 5; poll <= 100; ++poll) last = (*controller)->decide({{0.5 * poll}, {{Rps{0}}}});
  EXPECT_LT(last.units[0] * last.clock.value, burst.units[0] * burst.clock.value);
}

TEST(Controller, RefusesWhatItCannotCarry) {
  plan::PowerProblem problem = modelled_problem();
  problem.services[0].rate = Rps{1e6};
  const auto controller = make_controller(problem, {});
  ASSERT_FALSE(controller);
  EXPECT_EQ(controller.error().code, ErrorCode::infeasible);
  EXPECT_FALSE(make_controller(problem, {.policy = "best"}));
}

}  // namespace
}  // namespace partita::power
