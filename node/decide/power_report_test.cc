#include "decide/power_report.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace partita::decide {
namespace {

PowerOutcome ran(const std::string& policy, double joules, long late) {
  PowerOutcome outcome;
  outcome.policy = policy;
  outcome.run.energy = {joules};
  outcome.run.time = {10};
  outcome.run.services = {
      {.name = "chat", .requests = 100, .late = late, .latency = {4}, .slo = {5}}};
  return outcome;
}

PowerCase of_two(const std::string& name, const PowerOutcome& first, const PowerOutcome& second) {
  return {.name = name, .problem = {}, .trace = {}, .outcomes = {first, second}};
}

// Half the energy once and twice the energy once are the same on a geometric mean, not on another;
// watts are means of the cases, what is within the SLO the worst.
TEST(PowerReport, SumsCasesAsAGeometricMean) {
  const std::vector<PowerCase> cases = {
      of_two("one", ran("baseline", 1000, 0), ran("fs", 500, 5)),
      of_two("two", ran("baseline", 1000, 0), ran("fs", 2000, 6))};
  PowerComparison how;
  how.run.even = true;
  how.run.seed = 7;
  const std::string text = power_cases_text(cases, how, "0.5s");
  EXPECT_NE(text.find("baseline   100.0               1.000        -      100.00 %  held\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("fs         125.0               1.000        -       94.00 %  MISSED\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("Arrivals uniform, poll 0.5s, guard "), text.npos) << text;
  EXPECT_NE(text.find(", seed 7; promise queueing.\n"), text.npos) << text;
}

TEST(PowerReport, OneCaseHasNoSums) {
  const std::vector<PowerCase> one = {of_two("all", ran("baseline", 1000, 0), ran("fs", 500, 0))};
  EXPECT_EQ(power_cases_text(one, {}, "500ms").find("geomean"), std::string::npos);
}

TEST(PowerReport, EveryPolicyHasToHold) {
  EXPECT_TRUE(all_held(of_two("one", ran("baseline", 1, 5), ran("fs", 1, 5))));
  EXPECT_FALSE(all_held(of_two("one", ran("baseline", 1, 5), ran("fs", 1, 6))));
}

}  // namespace
}  // namespace partita::decide
