// Batches beside services in simulated days: the real loop, apply, executor and journals.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/rng.h"
#include "base/test_rounds.h"
#include "control/sim/testing/test_world.h"

namespace partita::control {
namespace {

struct BatchDayKilled {};

constexpr int kTasksOfDay = 14;

// Two chains and some that stand alone; minutes to an hour each.
std::string tasks_of_day() {
  std::string text = "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command,after\n";
  for (int t = 0; t < kTasksOfDay; ++t) {
    const int seconds = 300 + 257 * t;
    text += fmt::format("t{},{},{},{},{},{},work,{}\n", t, seconds, seconds * 6 / 10,
                        seconds * 4 / 10, seconds * 35 / 100, seconds * 25 / 100,
                        t == 5 || t == 9 ? fmt::format("t{}", t - 3) : "");
  }
  return text;
}

WeeksOptions day_with_batch(std::uint64_t seed) {
  WeeksOptions options =
      weeks_of_tests("day", 4, 1, seed,
                     "services:\n"
                     "  - {name: day, model: resnet50, rate_rps: 1300, slo_ms: 138}\n"
                     "  - {name: night, model: bert, rate_rps: 20, slo_ms: 4294}\n");
  options.tasks_text = tasks_of_day();
  options.world.settings.batch.idle = true;
  return options;
}

struct BatchDay {
  WeeksReport report;
  std::map<std::string, int> begun, ended;
  int kills = 0, together = 0;  // looks at which batch and services shared the node
  std::vector<std::string> violations;
};

// `chance`: of a kill, per call at a door.
BatchDay played(WeeksOptions options, double chance) {
  BatchDay day;
  Rng rng = Rng(options.seed).split(3);
  auto weeks = SimWeeks::begin(std::move(options));
  CHECK(weeks.has_value());
  SimNode& node = (*weeks)->node();
  node.at_call = [&] {
    if (chance > 0 && rng.uniform() < chance) throw BatchDayKilled{};
  };
  (*weeks)->published = [&](const Snapshot& now) {
    // A GPU is a batch's or the services', never both.
    const std::set<std::string> lent(now.batch.gpus.begin(), now.batch.gpus.end());
    if (!lent.empty() && !now.assignment.segments.empty()) ++day.together;
    for (const actuate::AssignedSegment& one : now.assignment.segments)
      if (lent.contains(one.gpu_uuid))
        day.violations.push_back("a segment and a batch share " + one.gpu_uuid);
    if (lent.size() != now.batch.gpus.size()) day.violations.push_back("lent twice");
  };
  for (bool on = true; on;) {
    try {
      on = (*weeks)->step();
    } catch (const BatchDayKilled&) {
      ++day.kills;
      (*weeks)->drop_agent();
    }
  }
  node.at_call = {};
  auto report = (*weeks)->report();
  CHECK(report.has_value());
  day.report = *std::move(report);
  day.begun = (*weeks)->batches().begun();
  day.ended = (*weeks)->batches().ended();
  return day;
}

void expect_each_once(const BatchDay& day) {
  EXPECT_EQ(day.report.tasks, kTasksOfDay);
  EXPECT_EQ(day.report.tasks_done, kTasksOfDay);
  EXPECT_EQ(day.report.tasks_failed, 0);
  EXPECT_EQ(day.ended.size(), static_cast<std::size_t>(kTasksOfDay));
  for (const auto& [task, times] : day.ended) EXPECT_EQ(times, 1) << task;
  for (const std::string& one : day.violations) ADD_FAILURE() << one;
}

TEST(SimBatches, RunBesideServicesAndTakeNothingFromThem) {
  WeeksOptions options = day_with_batch(4);
  const BatchDay with = played(options, 0);
  expect_each_once(with);
  EXPECT_GT(with.together, 0);
  options.tasks_text.clear();
  const BatchDay without = played(options, 0);
  EXPECT_EQ(without.report.tasks, 0);
  ASSERT_EQ(with.report.services.size(), without.report.services.size());
  for (std::size_t s = 0; s < with.report.services.size(); ++s)
    EXPECT_GE(with.report.services[s].attainment, without.report.services[s].attainment - 2e-3)
        << with.report.services[s].name;
}

TEST(SimBatches, EveryTaskEndsOnceThoughTheAgentIsKilled) {
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(test_rounds(6)); ++seed) {
    const BatchDay day = played(day_with_batch(seed), 1.0 / 150);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_each_once(day);
    for (const auto& [task, times] : day.begun)
      EXPECT_GE(times, 1) << task;  // those of a GPU that was wanted back begin again
    kills += day.kills;
  }
  EXPECT_GT(kills, 0);
}

// Tasks of hours on GPUs that are lent at night only: the morning's traffic takes them back, and
// what was stopped is run again.
TEST(SimBatches, ServicesGetLentGpusBackInTime) {
  WeeksOptions options = day_with_batch(5);
  options.days = 2;
  options.services_text =
      "services:\n"
      "  - {name: day, model: resnet50, rate_rps: 4200, slo_ms: 138}\n"
      "  - {name: night, model: bert, rate_rps: 35, slo_ms: 4294}\n";
  options.tasks_text = "task,time_s_1g,time_s_2g,time_s_3g,time_s_4g,time_s_7g,command\n";
  for (int t = 0; t < kTasksOfDay; ++t)
    options.tasks_text += fmt::format("long{},14400,14400,14400,14400,14400,work\n", t);
  options.tasks_hour = 3;
  options.tasks_days = 1;
  const BatchDay with = played(options, 0);
  expect_each_once(with);
  int stopped = 0;
  for (const auto& [task, times] : with.begun) stopped += times - 1;
  int most = 0;
  for (const WeeksPoint& point : with.report.line) most = std::max(most, point.gpus);
  EXPECT_GT(stopped, 0) << "no GPU was wanted back; " << most;
  options.tasks_text.clear();
  const BatchDay without = played(options, 0);
  for (std::size_t s = 0; s < with.report.services.size(); ++s)
    EXPECT_GE(with.report.services[s].attainment, without.report.services[s].attainment - 2e-3)
        << with.report.services[s].name;
}

TEST(SimBatches, ReservedGpusAreNeverWantedBack) {
  WeeksOptions options = day_with_batch(2);
  options.world.settings.batch.idle = false;
  options.world.settings.batch.gpus = {3};
  const BatchDay day = played(options, 1.0 / 300);
  expect_each_once(day);
  for (const auto& [task, times] : day.begun) EXPECT_EQ(times, 1) << task;
}

}  // namespace
}  // namespace partita::control
