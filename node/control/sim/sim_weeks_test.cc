#include "control/sim/sim_weeks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/check.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

WeeksOptions scenario(int days, std::uint64_t seed) {
  return weeks_of_tests("weeks", 8, days, seed, source_text("data/scenarios/agent.yaml"));
}

WeeksReport played(WeeksOptions options) {
  auto weeks = SimWeeks::begin(std::move(options));
  CHECK(weeks.has_value());
  while ((*weeks)->step()) continue;
  auto report = (*weeks)->report();
  CHECK(report.has_value());
  return *std::move(report);
}

TEST(SimWeeks, TheSameSeedGivesTheSameReportWhichIsReadBack) {
  if (test_rounds(10) < 10)
    GTEST_SKIP() << "a day takes minutes under sanitizers; cli.agent_test plays one there";
  const WeeksReport once = played(scenario(1, 3));
  EXPECT_EQ(once, played(scenario(1, 3)));
  const auto again = parse_weeks("r.json", weeks_json(once));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(weeks_json(*again), weeks_json(once));
  EXPECT_EQ(once.services.size(), 5U);
  for (const ServiceWeeks& one : once.services) {
    EXPECT_NEAR(one.requests, one.rate.value * 86'400, one.requests * 0.01) << one.name;
    EXPECT_GT(one.attainment, 0.9) << one.name;
  }
  EXPECT_GT(once.gpu_hours, 0);
  EXPECT_LE(once.gpu_hours, 8 * 24 + 1e-6);
  EXPECT_EQ(once.failed_changes, 0);
}

TEST(SimWeeks, ABatchThatIsRefusedSaysWhy) {
  WeeksOptions options = scenario(1, 3);
  options.tasks_text = "task,time_s_1g\n";
  auto weeks = SimWeeks::begin(std::move(options));
  ASSERT_TRUE(weeks);
  while ((*weeks)->batches_asked() == 0) ASSERT_TRUE((*weeks)->step());
  (*weeks)->step();
  const auto report = (*weeks)->report();
  ASSERT_TRUE(report);
  EXPECT_EQ((*weeks)->batches_taken(), 0);
  EXPECT_NE(weeks_text(*report).find("a batch was refused: no GPU is for batches"),
            std::string::npos)
      << weeks_text(*report);
  EXPECT_EQ(parse_weeks("r.json", weeks_json(*report)).value_or(WeeksReport{}), *report);
}

// PARTITA_WEEK=SEED plays a week of it and prints the report; PARTITA_TROUBLE=1: with trouble.
TEST(SimWeeks, AWeek) {
  const char* seed = std::getenv("PARTITA_WEEK");
  if (seed == nullptr) GTEST_SKIP() << "PARTITA_WEEK is not set";
  WeeksOptions options = scenario(7, static_cast<std::uint64_t>(std::atol(seed)));
  options.world.settings.look_s = Settings{}.look_s;  // as the command does
  if (std::getenv("PARTITA_TROUBLE") != nullptr) options.troubles = usual_troubles();
  fmt::print("{}\n", weeks_text(played(std::move(options))));
}

}  // namespace
}  // namespace partita::control
