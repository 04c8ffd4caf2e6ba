#include "planners/batch/live.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/test_rounds.h"
#include "hw/catalogue.h"
#include "planners/batch/live_run.h"
#include "planners/batch/spread.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

const hw::GpuModel& live_gpu() { return *hw::builtin_catalogue().find("A100-80GB"); }

plan::BatchProblem random_arrivals(Rng& rng, int gpus) {
  plan::BatchProblem problem{{}, {live_gpu()}, std::vector<int>(at(gpus), 0)};
  const int count = 1 + static_cast<int>(rng.below(14));
  Nanos now = 0;
  for (int t = 0; t < count; ++t) {
    plan::Task task{.name = std::to_string(t), .times = {{}}};
    double time = 1e9 * (1 + 50 * rng.uniform());
    for (const int gpcs : {1, 2, 3, 4, 7}) {
      time *= 0.6 + 0.4 * rng.uniform();
      if (gpcs == 7 || rng.below(5) > 0) task.times[0][gpcs] = static_cast<Nanos>(time) + 1;
    }
    if (rng.below(2) == 0) now += static_cast<Nanos>(3e10 * rng.uniform());
    task.release = now;
    task.priority = 1 + static_cast<double>(rng.below(3));
    if (t > 0 && rng.below(4) == 0)
      task.after = {std::to_string(rng.below(static_cast<std::uint64_t>(t)))};
    if (rng.below(4) == 0) task.deadline = now + static_cast<Nanos>(1e10 * (1 + rng.uniform()));
    problem.tasks.push_back(std::move(task));
  }
  return problem;
}

// Whatever times turn out to be, what took place is a schedule of these times.
TEST(Live, WhatTakesPlaceIsASchedule) {
  for (int round = 0; round < test_rounds(60); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<std::uint64_t>(round) + 1);
    const plan::BatchProblem expected = random_arrivals(rng, 1 + round % 3);
    plan::BatchProblem actual = expected;
    const bool off = round % 2 == 0;
    for (plan::Task& task : actual.tasks) {
      const double by = off ? 0.3 + 2 * rng.uniform() : 1;
      for (Nanos& time : task.times[0].by_gpcs)
        time = static_cast<Nanos>(static_cast<double>(time) * by);
    }
    LiveRunOptions options;
    options.cv = off ? 0.5 : 0;
    options.planning.appends = 2'000;
    const auto run = run_live(expected, actual, options);
    ASSERT_TRUE(run);
    EXPECT_EQ(schedule_error(actual, run->schedule), "");
    if (!off) continue;
    plan::BatchProblem told = expected;  // by the tasks how far they may be off
    for (plan::Task& task : told.tasks) task.time_cv = options.cv;
    options.cv = 0;
    EXPECT_EQ(run_live(told, actual, options)->schedule.tasks, run->schedule.tasks);
  }
}

TEST(Live, ALoneTaskTakesItsFastestSize) {
  plan::BatchProblem problem{{}, {live_gpu()}, {0}};
  plan::Task task{.name = "a", .times = {{}}};
  for (const int gpcs : {1, 2, 3, 4, 7})
    task.times[0][gpcs] = (gpcs == 3 ? 20 : 60) * plan::kNanosInSecond;
  problem.tasks = {task};
  const auto run = run_live(problem, problem, {});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->schedule.tasks[0].profile, "3g.40gb");
}

// One that scales poorly takes the whole GPU when nothing is known of others, and few slices when
// others like it are known to come as often as that.
TEST(Live, RoomIsLeftForWhatIsKnownToCome) {
  plan::BatchProblem problem{{}, {live_gpu()}, {0}};
  plan::Task task{.name = "a", .times = {{}}};
  for (const int gpcs : {1, 2, 3, 4, 7})
    task.times[0][gpcs] = (60 - 2 * gpcs) * plan::kNanosInSecond;
  problem.tasks = {task};
  LiveRunOptions options;
  const auto first = run_live(problem, problem, options);
  for (int i = 12; i > 0; --i) {
    options.earlier.push_back(task);
    options.earlier.back().release = -i * 5 * plan::kNanosInSecond;
  }
  const auto then = run_live(problem, problem, options);
  ASSERT_TRUE(first && then);
  EXPECT_EQ(first->schedule.tasks[0].profile, "7g.80gb");
  EXPECT_EQ(then->schedule.tasks[0].profile, "1g.10gb");
  // Of what comes no more, nothing is expected.
  for (plan::Task& one : options.earlier) one.release -= 3'600 * plan::kNanosInSecond;
  EXPECT_EQ(run_live(problem, problem, options)->schedule.tasks[0].profile, "7g.80gb");
}

// The makespan in order on a fixed layout, all of whose instances are made first; kNever: some task
// fits none.
Nanos in_order_on(const Forest& forest, const std::vector<char>& layout) {
  std::vector<std::pair<Nanos, int>> free;
  Nanos created = 0, span = 0;
  for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
    if (layout[at(v)]) free.emplace_back(created += forest.nodes[at(v)].create, v);
  }
  for (int t = 0; t < forest.tasks; ++t) {
    auto first = free.end();
    for (auto one = free.begin(); one != free.end(); ++one) {
      if (forest.time(t, one->second) >= kNever) continue;
      if (first == free.end() || one->first < first->first) first = one;
    }
    if (first == free.end()) return kNever;
    span = std::max(span, first->first += forest.time(t, first->second));
  }
  return span;
}

Nanos fixed_in_order(const plan::BatchProblem& problem) {
  const Forest forest = *make_forest(problem);
  Nanos best = kNever;
  for (const std::vector<char>& layout : fixed_layouts(forest))
    best = std::min(best, in_order_on(forest, layout));
  return best;
}

// The layout that is best on average over times as they may turn out.
std::vector<char> best_layout_beforehand(const plan::BatchProblem& expected,
                                         const std::function<plan::BatchProblem()>& turned_out) {
  const std::vector<std::vector<char>> layouts = fixed_layouts(*make_forest(expected));
  std::vector<double> sums(layouts.size());
  for (int turn = 0; turn < 100; ++turn) {
    const Forest forest = *make_forest(turned_out());
    for (std::size_t l = 0; l < layouts.size(); ++l)
      sums[l] += static_cast<double>(in_order_on(forest, layouts[l]));
  }
  return layouts[at(static_cast<int>(std::ranges::min_element(sums) - sums.begin()))];
}

TEST(Tail, IsNeverLongerThanInOrderOnTheBestFixedLayout) {
  for (int round = 0; round < test_rounds(60); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<std::uint64_t>(round) + 7);
    plan::BatchProblem problem = random_arrivals(rng, 1);
    for (plan::Task& task : problem.tasks) {
      task.release = 0;
      task.after.clear();
      task.deadline.reset();
    }
    const TimedBatch batch = make_timed(problem, *make_forest(problem));
    const TailPlan plan = plan_tail(batch, {});
    EXPECT_LE(plan.worth.makespan, plan.in_order);
    // That one creates all of its instances first, and gives equals to others.
    EXPECT_LE(plan.worth.makespan, fixed_in_order(problem) + 2 * plan::kNanosInSecond);
    EXPECT_EQ(schedule_error(problem, to_schedule(batch.forest, problem, plan.physical)), "");
  }
}

// What is known of the plan before is gone on with, and what has come since finds a place in it.
TEST(Tail, IsNeverWorseThanThePlanBeforeWithTheNewTasksBehindIt) {
  for (int round = 0; round < test_rounds(40); ++round) {
    SCOPED_TRACE(round);
    Rng rng(static_cast<std::uint64_t>(round) + 77);
    plan::BatchProblem problem = random_arrivals(rng, 1 + round % 2);
    for (plan::Task& task : problem.tasks) task.after.clear();
    const TimedBatch batch = make_timed(problem, *make_forest(problem));
    TailOptions options;
    options.appends = 20'000;
    Choice before = plan_tail(batch, options).choice;
    const std::size_t known = rng.below(before.order.size() + 1);
    Choice part = before;
    for (std::size_t i = known; i < part.order.size(); ++i) part.node[at(part.order[i])] = -1;
    part.order.resize(known);
    options.before = &part;
    options.appends = 0;
    const TailPlan plan = plan_tail(batch, options);
    EXPECT_EQ(schedule_error(problem, to_schedule(batch.forest, problem, plan.physical)), "");
    if (known < before.order.size()) continue;
    TimedDecoder decoder(batch);
    EXPECT_LE(plan.worth.lateness, decoder.play(before).lateness);
  }
}

// A long task behind short ones, which gains little by a larger instance.
TEST(Tail, WhatEndsBeyondAMomentCountsFromThenOn) {
  plan::BatchProblem problem{{}, {live_gpu()}, {0, 0}};
  const auto add = [&](const std::vector<double>& seconds) {
    plan::Task task{.name = std::to_string(problem.tasks.size()), .times = {{}}};
    const int sizes[] = {1, 2, 3, 4, 7};
    for (std::size_t i = 0; i < seconds.size(); ++i)
      task.times[0][sizes[i]] = static_cast<Nanos>(1e9 * seconds[i]);
    problem.tasks.push_back(std::move(task));
  };
  for (int t = 0; t < 20; ++t) add({60, 50, 45, 42, 40});
  add({1000, 800, 700, 650, 600});
  const TimedBatch batch = make_timed(problem, *make_forest(problem));
  const auto seconds = [&](double beyond, double after) {
    TailOptions options{.aim = {.makespan = 0.01, .area = 3}};
    options.aim.beyond = beyond;
    options.aim.after = static_cast<Nanos>(1e9 * after);
    const TailPlan plan = plan_tail(batch, options);
    return static_cast<double>(plan.worth.makespan) / 1e9;
  };
  const double plain = seconds(0, 0);
  EXPECT_GT(plain, 750) << "it waits for short ones";
  EXPECT_LT(seconds(4, 600), 651) << "it begins at once on 4g";
  EXPECT_DOUBLE_EQ(seconds(4, 5'000), plain) << "nothing ends beyond that";
}

TEST(Live, InexactTimesEndNoLaterThanOnTheBestLayoutChosenBeforehand) {
  constexpr double kCv = 0.6;
  double lived = 0, chosen = 0;
  const int rounds = std::max(8, test_rounds(8));  // a mean of fewer says nothing
  for (int round = 0; round < rounds; ++round) {
    Rng rng(static_cast<std::uint64_t>(round) + 31);
    plan::BatchProblem expected{{}, {live_gpu()}, {0}};
    for (int t = 0; t < 12; ++t) {
      plan::Task task{.name = std::to_string(t), .times = {{}}};
      double time = 1e9 * (5 + 50 * rng.uniform());
      for (const int gpcs : {1, 2, 3, 4, 7})
        task.times[0][gpcs] = static_cast<Nanos>(time *= 0.6 + 0.4 * rng.uniform());
      expected.tasks.push_back(std::move(task));
    }
    const auto turned_out = [&] {
      plan::BatchProblem actual = expected;
      for (plan::Task& task : actual.tasks) {
        const double by = lognormal_at(0.001 + 0.998 * rng.uniform(), kCv, 0);
        for (Nanos& time : task.times[0].by_gpcs)
          time = static_cast<Nanos>(static_cast<double>(time) * by);
      }
      return actual;
    };
    const std::vector<char> layout = best_layout_beforehand(expected, turned_out);
    for (int turn = 0; turn < 3; ++turn) {
      const plan::BatchProblem actual = turned_out();
      LiveRunOptions options;
      options.cv = kCv;
      options.planning.appends = 20'000;
      const auto run = run_live(expected, actual, options);
      ASSERT_TRUE(run);
      EXPECT_EQ(schedule_error(actual, run->schedule), "");
      lived += static_cast<double>(run->schedule.makespan);
      chosen += static_cast<double>(in_order_on(*make_forest(actual), layout));
    }
  }
  EXPECT_LE(lived, 0.97 * chosen);
}

TEST(Tail, LayoutsOfAnA100AreOfDifferentKindsAndWhole) {
  const plan::BatchProblem problem{{}, {live_gpu()}, {0}};
  std::set<std::vector<int>> kinds;
  const Forest forest = *make_forest(problem);
  for (const std::vector<char>& layout : fixed_layouts(forest)) {
    std::vector<int> sizes;
    int columns = 0;
    for (std::size_t v = 0; v < layout.size(); ++v) {
      if (!layout[v]) continue;
      sizes.push_back(forest.nodes[v].size_class);
      columns += forest.nodes[v].columns;
    }
    std::ranges::sort(sizes);
    EXPECT_TRUE(kinds.insert(sizes).second) << "twice";
    EXPECT_EQ(columns, 7);
  }
  EXPECT_GE(kinds.size(), 9u);
}

TEST(Spread, QuantilesOfTheNormal) {
  EXPECT_NEAR(normal_quantile(0.975), 1.959963985, 1e-7);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-12);
  EXPECT_NEAR(normal_quantile(0.001), -3.090232306, 1e-7);
}

// The mean of what is drawn is the mean that is stated, whatever has passed.
TEST(Spread, MeansAgreeWithDraws) {
  constexpr int kDraws = 20'000;
  for (const double cv : {0.1, 0.3, 1.0}) {
    for (const double passed : {0.0, 0.5, 1.0, 1.5}) {
      double sum = 0;
      for (int i = 0; i < kDraws; ++i) {
        const double time = lognormal_at((i + 0.5) / kDraws, cv, passed);
        EXPECT_GE(time, passed);
        sum += time;
      }
      EXPECT_NEAR(sum / kDraws, lognormal_mean(cv, passed), 0.01) << cv << " " << passed;
    }
  }
}

}  // namespace
}  // namespace partita::planners::batch
