// Days by the price of energy: figures by hand, and which changes pay.
#include <gtest/gtest.h>

#include "decide/day.h"
#include "decide/serving_inputs.h"
#include "forms/day_forms.h"

namespace partita::decide {
namespace {

using plan::RateAt;

// A 7g.80gb carries 1000 req/s. A GPU takes 60 W idle and 400 W busy.
plan::ServingProblem one_service(const std::vector<RateAt>& rates) {
  plan::ServingProblem problem;
  plan::Service& service = problem.services.emplace_back();
  service.name = "chat";
  service.model = "lm";
  service.rate = Rps{100};
  service.slo = Millis{100};
  service.traffic.rates = rates;
  problem.rule = {plan::SloRule::Kind::execution, 0.5};
  profile::ProfileTable table;
  table["lm"] = {"lm", {{7, 1, 1, Rps{1000}, Millis{1}, {}}}};
  problem.fleet.push_back({*hw::builtin_catalogue().find("A100-80GB"), table, std::nullopt, 1});
  problem.fleet[0].power = plan::GpuPower{.idle = Watts{60}, .busy = Watts{400}};
  return problem;
}

plan::Tariff of(double usual, int dear_hour, double dear) {
  plan::Tariff tariff{.daily = true};
  for (int hour = 0; hour < 24; ++hour)
    tariff.hours.push_back({hour == dear_hour ? dear : usual, 100});
  return tariff;
}

plan::DayPlan day_of(const plan::ServingProblem& problem, const plan::Tariff& tariff) {
  const auto made = plan_day(problem, {{}, Seconds{0}, tariff});
  EXPECT_TRUE(made) << to_string(made.error());
  return made && made->day ? *made->day : plan::DayPlan{};
}

// 2000 req/s are two GPUs, from 10:00 to 10:20 900 are one. Without the second one 60 W are saved
// for a third of an hour, which is 0.05 of what a GPU takes in an hour; an instance that is made
// counts as 0.25. Where that hour's price is 7.27 times the day's mean, it pays.
TEST(DayEnergy, AChangePaysWhereEnergyIsDear) {
  const auto problem = one_service({{600, Rps{900}}, {620, Rps{2000}}});
  const plan::DayPlan flat = day_of(problem, of(0.1, 0, 0.1));
  ASSERT_EQ(flat.periods.size(), 2u);
  EXPECT_EQ(flat.periods[0].plan.objective.gpus, 2);
  const plan::DayPlan peaky = day_of(problem, of(0.1, 10, 1));
  ASSERT_EQ(peaky.periods.size(), 2u);
  EXPECT_EQ(peaky.periods[0].plan.objective.gpus, 1);
  EXPECT_EQ(peaky.periods[1].plan.objective.gpus, 2);
  // The same price, in hours in which nothing can be saved.
  EXPECT_EQ(day_of(problem, of(0.1, 3, 1)).periods[0].plan.objective.gpus, 2);
}

TEST(DayEnergy, SaysKilowattHoursMoneyAndGrams) {
  const auto problem = one_service({{600, Rps{900}}, {620, Rps{2000}}});
  const plan::DayPlan day = day_of(problem, of(0.1, 10, 1));
  // 60 W and 0.9 of 340 W for 20 minutes at 1; 800 W for 40 minutes at 1 and 23 hours at 0.1.
  const double dear_kwh = (60 + 0.9 * 340) / 1000 / 3, usual_kwh = 0.8 * 23 + 0.8 * 2 / 3;
  EXPECT_NEAR(day.periods[0].energy->joules / plan::kJoulesPerKwh, dear_kwh, 1e-9);
  EXPECT_NEAR(*day.periods[0].energy->cost, dear_kwh, 1e-9);
  EXPECT_NEAR(*day.periods[1].energy->cost, 0.8 * 23 * 0.1 + 0.8 * 2 / 3, 1e-9);
  EXPECT_NEAR(*day.energy->co2_g, 100 * (dear_kwh + usual_kwh), 1e-6);
  // One plan for the peak burns 60 W more in these 20 minutes.
  EXPECT_NEAR(*day.peak_energy->cost - *day.energy->cost, 0.06 / 3, 1e-9);
  const auto again = forms::parse_day("day.json", forms::day_json(day));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, day);
  EXPECT_NE(forms::day_text(day, 100).find("energy a day: "), std::string::npos);
}

TEST(DayEnergy, RefusesWhatCannotBeWeighed) {
  const auto problem = one_service({{600, Rps{900}}, {620, Rps{2000}}});
  plan::Tariff dated = of(0.1, 10, 1);
  dated.daily = false;
  const auto made = plan_day(problem, {{}, Seconds{0}, dated});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().context, "--prices");
  EXPECT_FALSE(plan_day(problem, {{}, Seconds{0}, of(-0.1, 10, 1)})) << "free on average";
}

}  // namespace
}  // namespace partita::decide
