// Timed batches before the judge and in the simulator, on all GPUs of the catalogue.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/test_rounds.h"
#include "planners/batch/timed.h"
#include "problems.h"
#include "random_batch.h"
#include "sim/batch.h"
#include "verify/batch.h"

namespace partita::batch_test {
namespace {

planners::batch::Options budget(long steps) {
  planners::batch::Options options;
  options.budget = steps;
  return options;
}

// Without differences no task ends later than the schedule says; returns the simulated makespan.
plan::Nanos expect_on_time(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  sim::BatchOptions options;
  options.spread = 0;
  options.runs = 1;
  const Result<sim::BatchReport> report = sim::simulate(problem, schedule, options);
  EXPECT_TRUE(report) << to_string(report.error());
  if (!report) return 0;
  std::map<std::string, plan::Nanos> ends;
  for (const plan::ScheduledTask& task : schedule.tasks) ends[task.task] = task.end;
  for (const sim::TaskReport& task : report->tasks) {
    EXPECT_LE(task.mean_end, ends.at(task.task)) << task.task;
  }
  return report->mean;
}

TEST(TimedJudge, SchedulesAreValidAndCanBeCarriedOut) {
  Rng rng(11);
  for (int round = 0; round < test_rounds(400); ++round) {
    const bool timed = round % 4 != 0;
    const plan::BatchProblem problem = random_batch(rng, {.most_tasks = 20, .timed = timed});
    const planners::batch::Outcome outcome = planners::batch::timed(problem, budget(600));
    ASSERT_TRUE(outcome.schedule) << "round " << round;
    for (const plan::Reason& violation : verify::verify(problem, *outcome.schedule)) {
      ADD_FAILURE() << "round " << round << ": " << to_string(violation);
    }
    const plan::Nanos simulated = expect_on_time(problem, *outcome.schedule);
    EXPECT_GE(simulated, outcome.schedule->lower_bound) << "round " << round;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Schedules that no planner made: gaps anywhere, instances created again, +me instances.
TEST(TimedJudge, ArbitraryValidSchedulesAreNeverCarriedOutLate) {
  Rng rng(12);
  for (int round = 0; round < test_rounds(400); ++round) {
    const plan::BatchProblem problem =
        random_batch(rng, {.most_tasks = 20, .timed = round % 2 == 0, .extreme = false});
    const plan::BatchSchedule schedule = random_schedule(rng, problem, round % 3 == 0);
    ASSERT_TRUE(verify::verify(problem, schedule).empty()) << "round " << round;
    expect_on_time(problem, schedule);
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

// Without wishes, tiny batches: the true optimum over all schedules.
TEST(TimedJudge, ReachesTheTrueOptimumOfUntimedBatches) {
  Rng rng(13);
  int optimal = 0;
  const int rounds = test_rounds(60);
  for (int round = 0; round < rounds; ++round) {
    const Shape shape{.most_tasks = 3, .most_gpus = 1, .extreme = false, .gpus = {"A30-24GB"}};
    const plan::BatchProblem problem = random_batch(rng, shape);
    const planners::batch::Outcome outcome = planners::batch::timed(problem, budget(20'000));
    ASSERT_TRUE(outcome.schedule);
    const plan::Nanos least = optimum(problem);
    EXPECT_GE(outcome.schedule->makespan, least);
    EXPECT_LE(outcome.schedule->lower_bound, least);
    optimal += outcome.schedule->makespan == least ? 1 : 0;
  }
  EXPECT_GE(optimal, rounds - 1);
}

}  // namespace
}  // namespace partita::batch_test
