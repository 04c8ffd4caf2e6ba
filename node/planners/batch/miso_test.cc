#include "planners/batch/miso.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "hw/layout.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

// Profile and start of every task, by the problem's order.
std::vector<std::string> places(const plan::BatchProblem& problem,
                                const plan::BatchSchedule& schedule) {
  std::vector<std::string> result;
  for (const plan::Task& task : problem.tasks) {
    for (const plan::ScheduledTask& run : schedule.tasks) {
      if (run.task != task.name) continue;
      result.push_back(run.profile.substr(0, 2) + "@" + std::to_string(run.start));
    }
  }
  return result;
}
using Places = std::vector<std::string>;

// A30. Speedups of a: 1, 2, 4 (linear), of the others 1, 1.1, 1.2. The next four on 4x1g: 4; on
// 2g+1g+1g: 2 + 1 + 1 = 4; on 2g+2g: 2 + 1.1; on 4g: 4. Equal sums: the first layout.
TEST(Miso, ChoosesTheLayoutWithTheGreatestSumOfSpeedups) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{1, 44}, {2, 22}, {4, 11}});
  for (int i = 0; i < 3; ++i) add_task(problem, {{1, 66}, {2, 60}, {4, 55}});
  EXPECT_EQ(places(problem, *miso(problem, {}).schedule), (Places{"1g@0", "1g@1", "1g@2", "1g@3"}));
  // Super-linear to two slices, 2.2: 2g+1g+1g gives 4.2, and 4g 4.4 to a alone; a goes first. For
  // the three others 2g+1g+1g gives 3.1.
  problem.tasks[0].times[0][2] = s(20);
  problem.tasks[0].times[0][4] = s(10);
  Places next = places(problem, *miso(problem, {}).schedule);
  EXPECT_EQ(next.front(), "4g@0");
  std::ranges::sort(next);
  EXPECT_EQ(next, (Places{"1g@0", "1g@1", "2g@2", "4g@0"}));
  // Without the speedup to four: 2g+1g+1g for the first three, and then a round for the last one
  // alone, for which 4g is best (1.2).
  problem.tasks[0].times[0][4] = s(20);
  const auto schedule = miso(problem, {}).schedule;
  const Places found = places(problem, *schedule);
  EXPECT_EQ(found[0].substr(0, 2), "2g");
  EXPECT_EQ(found[1].substr(0, 2), "1g");
  EXPECT_EQ(found[2].substr(0, 2), "1g");
  EXPECT_EQ(found[3], "4g@0");
  EXPECT_EQ(schedule_error(problem, *schedule), "");
}

// A30, tasks that fit two slices alone, 10, 2, 3 and 3 s: rounds of two.
TEST(Miso, BarrierAndPerSlice) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  for (const double time : {10, 2, 3, 3}) add_task(problem, {{2, time}});
  // Ideal: with a barrier 10 + 3; per slice 10 + 3 on the left, 2 + 3 on the right.
  EXPECT_EQ(miso_ideal(problem, MisoReading::barrier), s(13));
  EXPECT_EQ(miso_ideal(problem, MisoReading::per_slice), s(13));
  // Real: creates by 0.12 and 0.24; instances are kept.
  const auto barrier = miso(problem, with_argument("barrier")).schedule;
  const auto slices = miso(problem, with_argument("per-slice")).schedule;
  EXPECT_EQ(barrier->makespan, s(10.12 + 3));
  EXPECT_EQ(slices->makespan, s(10.12 + 3));
  EXPECT_EQ(barrier->tasks.back().begin, s(10.12));  // both of the second round
  EXPECT_EQ(barrier->tasks[2].begin, s(10.12));
  EXPECT_EQ(slices->tasks[2].begin, s(0.24 + 2));  // the right one does not wait
  EXPECT_EQ(slices->reconfigurations.size(), 2u);
  EXPECT_EQ(barrier->reconfigurations.size(), 2u);
}

// A30: 10 and 2 s on the halves, 5 s on the whole, 1 s on a half. Per slice the last one may not
// begin before the whole has ended either.
TEST(Miso, AnInstanceWaitsForAllItsSlices) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  for (const double time : {10, 2}) add_task(problem, {{2, time}});
  add_task(problem, {{4, 5}});
  add_task(problem, {{2, 1}});
  EXPECT_EQ(miso_ideal(problem, MisoReading::per_slice), s(16));
  EXPECT_EQ(miso_ideal(problem, MisoReading::barrier), s(16));
}

// Barrier, A30: 4g for 5 s, then 2g+2g. Created at 0.13, ends 5.13; destroyed by 5.23, creates by
// 5.35 and 5.47, 4 s on each.
TEST(Miso, ReconfigurationsTakeTheirTime) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{4, 5}});
  add_task(problem, {{2, 4}});
  add_task(problem, {{2, 4}});
  for (const char* reading : {"barrier", "per-slice"}) {
    const auto schedule = miso(problem, with_argument(reading)).schedule;
    EXPECT_EQ(schedule->makespan, s(9.47));
    EXPECT_EQ(schedule->reconfigurations.size(), 4u);
    EXPECT_EQ(schedule_error(problem, *schedule), "");
  }
  EXPECT_EQ(miso_ideal(problem, MisoReading::barrier), s(9));
}

// The first round by exhaustion over all maximal layouts and all placings of tasks on them.
TEST(Miso, FirstRoundAgainstAllPlacings) {
  Rng rng(1);
  const hw::GpuModel& model = test_model("A100-80GB");
  for (int round = 0; round < 30; ++round) {
    const auto problem = random_batch(empty_batch({"A100-80GB"}, {0}), 7, Shape::wild, rng);
    const auto speedup = [&](std::size_t task, int size) {
      const plan::SizeTimes& times = problem.tasks[task].times[0];
      return static_cast<double>(times[1]) / static_cast<double>(times[size]);
    };
    double best = 0;
    for (const hw::Layout& layout : hw::maximal_layouts(model, hw::plain_profiles(model))) {
      std::vector<int> sizes;
      for (const auto& p : layout) {
        sizes.push_back(model.profiles[static_cast<std::size_t>(p.profile)].gpcs);
      }
      std::ranges::sort(sizes);
      do {
        double sum = 0;
        for (std::size_t i = 0; i < sizes.size(); ++i) sum += speedup(i, sizes[i]);
        best = std::max(best, sum);
      } while (std::next_permutation(sizes.begin(), sizes.end()));
    }
    // The tasks of the first round begin before any instance is destroyed.
    const auto schedule = miso(problem, with_argument("barrier")).schedule;
    plan::Nanos destroyed = schedule->makespan;
    for (const auto& op : schedule->reconfigurations) {
      if (op.op == plan::Reconfiguration::Op::destroy) destroyed = std::min(destroyed, op.begin);
    }
    double sum = 0;
    std::set<std::pair<std::string, int>> used;  // a second round may use the same instances
    for (const plan::ScheduledTask& run : schedule->tasks) {
      if (run.begin >= destroyed || !used.emplace(run.profile, run.start).second) continue;
      for (std::size_t t = 0; t < 7; ++t) {
        if (problem.tasks[t].name == run.task) sum += speedup(t, run.profile[0] - '0');
      }
    }
    EXPECT_NEAR(sum, best, 1e-9 * best);
  }
}

TEST(Miso, RandomBatchesAreScheduledWhole) {
  Rng rng(2);
  for (int round = 0; round < 600; ++round) {
    auto problem =
        random_batch(round % 3 == 0   ? empty_batch({"A100-80GB", "A30-24GB"}, {0, 1, 0})
                     : round % 3 == 1 ? empty_batch({"H100-80GB-SXM5"}, {0})
                                      : empty_batch({"A30-24GB"}, {0, 0}),
                     static_cast<int>(rng.below(20)), static_cast<Shape>(rng.below(5)), rng);
    const plan::Nanos ideal = miso_ideal(problem, MisoReading::barrier);
    const auto untimed = miso(problem, with_argument("barrier")).schedule;
    EXPECT_GE(untimed->makespan, ideal);
    EXPECT_EQ(untimed->makespan == 0, problem.tasks.empty());
    for (std::size_t t = 1; t < problem.tasks.size(); ++t) {
      if (rng.below(4) == 0) problem.tasks[t - 1].after = {problem.tasks[t].name};
      if (rng.below(4) == 0) problem.tasks[t].release = s(100 * rng.uniform());
    }
    const char* reading = rng.below(2) == 0 ? "barrier" : "per-slice";
    const Outcome outcome = miso(problem, with_argument(reading));
    ASSERT_TRUE(outcome.schedule);
    EXPECT_EQ(schedule_error(problem, *outcome.schedule), "") << reading;
  }
}

TEST(Miso, RefusesWhatFitsNowhereAndUnknownArguments) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{7, 10}});
  EXPECT_EQ(miso(problem, {}).refusals.at(0).constraint, "does_not_fit");
  EXPECT_EQ(miso(problem, with_argument("free")).refusals.at(0).constraint, "argument");
}

}  // namespace
}  // namespace partita::planners::batch
