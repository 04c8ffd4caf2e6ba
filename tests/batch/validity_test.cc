// Every scheduler of the table over random batches on all GPUs: each schedule passes the judge, no
// bound is above the true optimum, and every proof is one. bench/batch_validity_bench.cc does the
// same for longer.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "all_schedulers.h"
#include "base/test_rounds.h"
#include "planners/batch/search.h"
#include "problems.h"
#include "verify/batch.h"

namespace partita::batch_test {
namespace {

using plan::BatchProblem;
using plan::BatchSchedule;
using plan::Nanos;
using planners::batch::Outcome;

// A right schedule, or reasons why there is none; the default scheduler always has one.
void expect_right(const NamedScheduler& scheduler, const BatchProblem& problem) {
  const Outcome outcome = scheduler.run(problem, 200);
  EXPECT_NE(outcome.schedule.has_value(), !outcome.refusals.empty());
  EXPECT_TRUE(outcome.schedule || !scheduler.is_default());
  if (!outcome.schedule) return;
  for (const plan::Reason& reason : verify::verify(problem, *outcome.schedule))
    ADD_FAILURE() << plan::to_string(reason);
}

void expect_right_schedules(const Shape& shape, std::uint64_t seed, int rounds) {
  Rng rng(seed);
  for (int round = 0; round < test_rounds(rounds); ++round) {
    const BatchProblem problem = random_batch(rng, shape);
    for (const NamedScheduler& scheduler : all_schedulers()) {
      SCOPED_TRACE(scheduler.name + ", round " + std::to_string(round));
      expect_right(scheduler, problem);
    }
  }
}

TEST(BatchValidity, SmallBatches) { expect_right_schedules({.most_tasks = 6}, 1, 400); }
TEST(BatchValidity, LargerBatches) { expect_right_schedules({.most_tasks = 40}, 2, 40); }
TEST(BatchValidity, ManyGpus) {
  expect_right_schedules({.most_tasks = 30, .most_gpus = 10}, 3, 60);
}
TEST(BatchValidity, TimedBatches) {
  expect_right_schedules({.most_tasks = 12, .timed = true}, 4, 200);
}

TEST(BatchValidity, SameInputSameSchedule) {
  Rng rng(5);
  for (int round = 0; round < test_rounds(20); ++round) {
    const BatchProblem problem = random_batch(rng, {.timed = round % 2 == 0});
    for (const NamedScheduler& scheduler : all_schedulers())
      EXPECT_TRUE(scheduler.run(problem, 300).schedule == scheduler.run(problem, 300).schedule)
          << scheduler.name;
  }
}

// On tiny batches, where all schedules can be tried.
TEST(BatchValidity, BoundsAndProofsHold) {
  Rng rng(6);
  int proofs = 0;
  for (int round = 0; round < test_rounds(45); ++round) {
    const bool small = round % 3 > 0;
    const Shape shape{.most_tasks = small ? 4 : 3,
                      .most_gpus = round % 6 == 1 ? 2 : 1,
                      .gpus = {small ? "A30-24GB" : "A100-80GB"}};
    const BatchProblem problem = random_batch(rng, shape);
    const Nanos best = optimum(problem);
    for (const NamedScheduler& scheduler : all_schedulers()) {
      const Outcome outcome = scheduler.run(problem, 0);
      if (!outcome.schedule) continue;
      EXPECT_LE(outcome.schedule->lower_bound, best) << scheduler.name << " " << round;
      EXPECT_GE(outcome.schedule->makespan, best) << scheduler.name << " " << round;
      if (!outcome.schedule->optimal) continue;
      ++proofs;
      EXPECT_EQ(outcome.schedule->makespan, best) << scheduler.name << " " << round;
    }
  }
  EXPECT_GT(proofs, 0);
}

// Tasks about as long as a reconfiguration: what must wait for what decides. The bound stays below
// the true optimum, and mostly meets it.
TEST(BatchValidity, BoundsHoldWhereReconfigurationsDecide) {
  const NamedScheduler exact = named_scheduler("exact");
  Rng rng(12);
  int proofs = 0;
  const int rounds = test_rounds(150);
  for (int round = 0; round < rounds; ++round) {
    BatchProblem problem = random_batch(
        rng, {.most_tasks = 4, .most_gpus = 1, .extreme = false, .gpus = {"A30-24GB"}});
    for (plan::Task& task : problem.tasks) {
      for (Nanos& time : task.times[0].by_gpcs) time = time == 0 ? 0 : 1 + time / 100;
    }
    const Nanos best = optimum(problem);
    const auto schedule = exact.run(problem, 0).schedule;
    ASSERT_TRUE(schedule);
    EXPECT_LE(schedule->lower_bound, best) << round;
    EXPECT_GE(schedule->makespan, best) << round;
    proofs += schedule->optimal;
  }
  EXPECT_GT(proofs, rounds / 2);
}

// The default is never longer than FAR.
TEST(BatchValidity, BestIsNeverWorseThanFar) {
  const NamedScheduler ours = all_schedulers().front();
  const NamedScheduler far = named_scheduler("far");
  Rng rng(7);
  for (int round = 0; round < test_rounds(150); ++round) {
    const BatchProblem problem = random_batch(rng, {.most_tasks = 25});
    const auto best = ours.run(problem, 100).schedule;
    const auto theirs = far.run(problem, 0).schedule;
    ASSERT_TRUE(best && theirs);
    EXPECT_LE(best->makespan, theirs->makespan) << round;
  }
}

// The shortest longest column that branch and bound finds, searched to the end.
Nanos columns_by_branch(const BatchProblem& problem) {
  const auto forest = planners::batch::make_forest(problem);
  const auto found =
      planners::batch::search(*forest, {planners::batch::greedy(*forest)},
                              {.seed = 1, .heuristic_steps = 5000, .proof_steps = 10'000'000});
  EXPECT_EQ(found.length, found.lower_bound);
  return found.length;
}

// Branch and bound finds what trying all assignments finds; `exact` states at least that.
TEST(BatchValidity, ExactFindsTheBoundOfAssignments) {
  const NamedScheduler exact = named_scheduler("exact");
  Rng rng(8);
  for (int round = 0; round < test_rounds(40); ++round) {
    const bool small = round % 2 == 0;
    const Shape shape{.most_tasks = small ? 6 : 4,
                      .most_gpus = round % 5 == 0 ? 2 : 1,
                      .gpus = {small ? "A30-24GB" : "H100-80GB-SXM5"}};
    const BatchProblem problem = random_batch(rng, shape);
    const Outcome outcome = exact.run(problem, 0);
    ASSERT_TRUE(outcome.schedule);
    const Nanos bound = bound_by_brute_force(problem);
    EXPECT_EQ(columns_by_branch(problem), bound) << round;
    EXPECT_GE(outcome.schedule->lower_bound, bound) << round;
  }
}

TEST(BatchValidity, ExactAgreesWithCbc) {
  const NamedScheduler exact = named_scheduler("exact");
  Rng rng(9);
  int compared = 0;
  for (int round = 0; round < test_rounds(9); ++round) {
    const bool small = round % 3 > 0;
    const Shape shape{.most_tasks = small ? 10 : 6,
                      .most_gpus = 1,
                      .extreme = false,
                      .gpus = {small ? "A30-24GB" : "A100-80GB"}};
    const BatchProblem problem = random_batch(rng, shape);
    const auto bound = bound_by_cbc(problem);
    if (!bound) continue;
    ++compared;
    const Outcome outcome = exact.run(problem, 0);
    ASSERT_TRUE(outcome.schedule);
    const double columns = plan::seconds(columns_by_branch(problem)).value;
    EXPECT_NEAR(columns, *bound, 1e-5 * std::max(1.0, *bound)) << round;
    EXPECT_GE(plan::seconds(outcome.schedule->lower_bound).value, *bound - 1e-5) << round;
    EXPECT_GE(plan::seconds(outcome.schedule->makespan).value, *bound - 1e-5) << round;
  }
  if (compared == 0) GTEST_SKIP() << "CBC is not built in";
}

}  // namespace
}  // namespace partita::batch_test
