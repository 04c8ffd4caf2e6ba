#include "decide/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "decide/batch_comparison.h"
#include "decide/batch_robust.h"
#include "decide/batch_stream.h"
#include "decide/simulate.h"
#include "plan/digest.h"
#include "plan/testing/test_halves.h"

namespace partita::decide {
namespace {

using planners::batch::Chosen;
using planners::batch::Scheduler;
using testing::ElementsAre;
using testing::HasSubstr;

plan::BatchProblem tasks_asked(int tasks) {
  plan::BatchProblem problem;
  problem.models = {*hw::builtin_catalogue().find("A30-24GB")};
  problem.gpus = {0};
  for (int t = 0; t < tasks; ++t) {
    plan::Task& task = problem.tasks.emplace_back();
    task.name = "t" + std::to_string(t);
    plan::SizeTimes& times = task.times.emplace_back();
    times[1] = (8 + t) * plan::kNanosInSecond;
    times[2] = (5 + t) * plan::kNanosInSecond;
    times[4] = (3 + t) * plan::kNanosInSecond;
  }
  return problem;
}

Chosen scheduler(const std::string& name) { return *choose_scheduler("--scheduler", name); }

TEST(MakeSchedule, IsJudgedAndStamped) {
  const auto made = make_schedule(scheduler("far"), tasks_asked(4), {}, {});
  ASSERT_TRUE(made && made->plan);
  EXPECT_EQ((*made->plan)->problem_digest, plan::digest(tasks_asked(4)));
}

TEST(MakeSchedule, RefusesASchedulerThatLies) {
  const Scheduler liar{"liar", "", "", "", [](const auto& asked, const auto& options) {
                         planners::batch::Outcome outcome =
                             planners::batch::run(scheduler("far"), asked, options);
                         outcome.schedule->tasks[0].end -= plan::kNanosInSecond;
                         return outcome;
                       }};
  const auto made = make_schedule({&liar, ""}, tasks_asked(3), {}, {});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("'liar' made a schedule that the judge refuses"));
  EXPECT_THAT(made.error().message, HasSubstr("duration"));
}

TEST(Misuse, TellsArgumentsFromProblems) {
  EXPECT_FALSE(misuse("--scheduler", {{"does_not_fit", "task a", 0, 0, ""}}));
  const auto wrong = misuse("--scheduler", {{"layout", "fixed:9g", 0, 0, "no such layout"}});
  ASSERT_TRUE(wrong);
  EXPECT_EQ(to_string(*wrong), "--scheduler: fixed:9g: no such layout");
}

TEST(BatchFigures, CountsByHand) {
  // c on 4g from 0.13 to 3.13 s; then a and b on 2g, from 3.35 and 3.47, 5 s each.
  const plan::BatchProblem batch = plan::test::halves_problem();
  const auto judged = verify::judge(batch, plan::test::halves_schedule());
  ASSERT_TRUE(judged);
  const BatchFigures figures = figures_of(batch, *judged);
  EXPECT_EQ(figures.creates, 3);
  EXPECT_EQ(figures.destroys, 1);
  EXPECT_NEAR(figures.utilisation, (4 * 3 + 2 * 5 + 2 * 5) / (4 * 8.47), 1e-12);
  EXPECT_NEAR(figures.mean_end.value, (3.13 + 8.35 + 8.47) / 3, 1e-12);
}

TEST(BatchComparison, TakesTheBestBoundOfAll) {
  const auto contestants = parse_batch_contestants("--schedulers", "far,exact,miso");
  ASSERT_TRUE(contestants);
  const auto comparison = compare_schedulers(tasks_asked(4), *contestants, {}, {});
  ASSERT_TRUE(comparison);
  plan::Nanos bound = 0;
  for (const BatchStanding& standing : comparison->standings)
    bound = std::max(bound, (*standing.made.plan)->lower_bound);
  EXPECT_EQ(comparison->lower_bound, bound);
  EXPECT_EQ(comparison->far, (*comparison->standings[0].made.plan)->makespan);
  EXPECT_EQ(default_contestants(tasks_asked(12)), "best,far,miso,fixed-best,exact");
  EXPECT_EQ(default_contestants(tasks_asked(13)), "best,far,miso,fixed-best");
  EXPECT_FALSE(parse_batch_contestants("--schedulers", "far,"));
}

TEST(Robust, ChoosesTheLeastMeanOfAllSeeds) {
  const plan::BatchProblem batch = tasks_asked(9);
  const Chosen best = scheduler("best");
  const auto robust = make_robust_schedule(best, batch, {.seed = 3, .budget = 2000}, 0.4, {});
  ASSERT_TRUE(robust && robust->made.plan);
  EXPECT_EQ(robust->options.spread, 0.4);
  // Every candidate simulated by itself: none is expected to end sooner, and the bound is the best.
  plan::Nanos bound = 0;
  std::set<std::string> seen;
  const auto meet = [&](const Chosen& chosen, std::uint64_t seed) {
    const auto made = make_schedule(chosen, batch, {.seed = seed, .budget = 2000}, {});
    const auto report = simulate(batch, *made->plan, robust->options);
    EXPECT_LE(robust->report.mean, report->report.mean);
    bound = std::max(bound, (*made->plan)->lower_bound);
  };
  for (std::uint64_t seed = 3; seed < 3 + kSpreadSeeds; ++seed) meet(best, seed);
  meet(scheduler("far"), 3 + kSpreadSeeds);
  EXPECT_EQ((*robust->made.plan)->lower_bound, bound);
  const auto own = simulate(batch, *robust->made.plan, robust->options);
  EXPECT_EQ(own->report.mean, robust->report.mean);
}

TEST(Robust, SaysWhyThereIsNone) {
  const auto robust = make_robust_schedule(scheduler("fixed:7g"), tasks_asked(2), {}, 0.1, {});
  ASSERT_TRUE(robust);
  EXPECT_FALSE(robust->made.plan);
  EXPECT_TRUE(misuse("--scheduler", robust->made.refusals));
}

// ---- streams ----

TEST(Stream, SubmitsFilesOrReleases) {
  plan::BatchProblem one = tasks_asked(3), two = tasks_asked(1);
  two.tasks[0].name = "late";
  const GpuList gpus{one.models, one.gpus};
  const auto files = stream_of({one, two}, gpus, false);
  ASSERT_TRUE(files);
  ASSERT_EQ(files->submissions.size(), 2u);
  EXPECT_FALSE(files->online);
  EXPECT_EQ(files->problem.tasks.size(), 4u);

  one.tasks[0].release = 5;
  two.tasks[0].release = 5;
  const auto online = stream_of({one, two}, gpus, true);
  ASSERT_TRUE(online);
  EXPECT_TRUE(online->online);
  ASSERT_EQ(online->submissions.size(), 2u);
  EXPECT_EQ(online->submissions[0].tasks.size(), 2u);
  EXPECT_EQ(online->submissions[1].now, 5);
  EXPECT_EQ(online->submissions[1].tasks[1].name, "late");
}

TEST(Stream, MakesNamesUnique) {
  plan::BatchProblem one = tasks_asked(2);
  one.tasks[1].after = {"t0"};
  const auto stream = stream_of({one, one}, {one.models, one.gpus}, false);
  ASSERT_TRUE(stream);
  std::vector<std::string> names;
  for (const plan::Task& task : stream->problem.tasks) names.push_back(task.name);
  EXPECT_THAT(names, ElementsAre("1/t0", "1/t1", "2/t0", "2/t1"));
  EXPECT_THAT(stream->problem.tasks[3].after, ElementsAre("2/t0"));
}

TEST(Stream, IsJudgedAsOneBatch) {
  const plan::BatchProblem one = tasks_asked(3);
  const auto stream = stream_of({one, one}, {one.models, one.gpus}, false);
  double now = 0;
  const auto streamed = play(*stream, {}, [&] { return now += 2; });
  ASSERT_TRUE(streamed);
  EXPECT_EQ(streamed->submissions, 2u);
  EXPECT_EQ(streamed->schedule.problem_digest(), plan::digest(stream->problem));
  EXPECT_EQ(streamed->schedule->tasks.size(), 6u);
  EXPECT_EQ(streamed->schedule->stats.scheduling_ms, 2);
  // Least areas by hand: on an A30 a 1g of 8 + t s, a 2g of 2 (5 + t), a 4g of 4 (3 + t).
  const double least = 2 * ((8 + 9 + 10) / 4.0) * plan::kNanosInSecond;
  EXPECT_NEAR(streamed->area_bound, least, 1);
}

}  // namespace
}  // namespace partita::decide
