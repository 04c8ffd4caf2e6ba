#include "planners/batch/fixed.h"

#include <gtest/gtest.h>

#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

std::string canonical(const std::string& text) {
  const auto sizes = parse_layout(text);
  return sizes ? layout_name(*sizes) : "refused";
}

TEST(Fixed, LayoutsAreWrittenInSeveralWays) {
  EXPECT_EQ(canonical("4g+2g+1g"), "4g+2g+1g");
  EXPECT_EQ(canonical("1+4+2"), "4g+2g+1g");
  EXPECT_EQ(canonical("7x1g"), "7x1g");
  EXPECT_EQ(canonical("2x2+3x1g"), "2g+2g+3x1g");
  EXPECT_EQ(canonical("7g"), "7g");
  for (const char* wrong : {"", "+", "4g+", "g", "4h", "0", "-1g", "x1", "3x", "4gg", "17", "99x9",
                            "4g 2g", "9999999999"}) {
    EXPECT_EQ(canonical(wrong), "refused") << wrong;
  }
}

std::string placed(const char* gpu, const std::string& text) {
  const hw::GpuModel& model = test_model(gpu);
  const auto layout = find_layout(model, parse_layout(text).value());
  if (!layout) return layout.error().message;
  EXPECT_TRUE(hw::conflicts(model, *layout).empty());
  std::string result;
  for (const hw::PlacedProfile& p : *layout) {
    if (!result.empty()) result += ' ';
    result += std::to_string(model.profiles[static_cast<std::size_t>(p.profile)].gpcs) + "@" +
              std::to_string(p.start);
  }
  return result;
}

TEST(Fixed, FindsMaximalLayoutsAndPartsOfThem) {
  EXPECT_EQ(placed("A100-80GB", "7g"), "7@0");
  EXPECT_EQ(placed("A100-80GB", "4g+3g"), "4@0 3@4");
  EXPECT_EQ(placed("A100-80GB", "7x1g"), "1@0 1@1 1@2 1@3 1@4 1@5 1@6");
  EXPECT_EQ(placed("A100-80GB", "4g"), "4@0");  // part of 4g+...
  EXPECT_EQ(placed("A30-24GB", "2g+2g"), "2@0 2@2");
  EXPECT_EQ(placed("A30-24GB", "3x1g"), "1@0 1@1 1@2");
  EXPECT_EQ(placed("A30-24GB", "3g"),
            "no layout 3g; possible are these and parts of them: 4x1g, 2g+1g+1g, 2g+2g, 4g");
  EXPECT_TRUE(placed("A100-80GB", "4g+4g").starts_with("no layout 4g+4g; possible are"));
}

// A30, 2g+2g: created by 0.12 and 0.24 s. FIFO: a (10 s) and b (4 s) at once, c (3 s) after b, d
// (1 s) after c.
TEST(Fixed, FirstInFirstOutOnTheFirstFreeInstance) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  for (const double time : {10, 4, 3, 1}) add_task(problem, {{1, 50}, {2, time}, {4, time}});
  const Outcome outcome = fixed(problem, with_argument("2g+2g"));
  ASSERT_TRUE(outcome.schedule);
  EXPECT_EQ(schedule_error(problem, *outcome.schedule), "");
  EXPECT_EQ(outcome.schedule->makespan, s(10.12));
  ASSERT_EQ(outcome.schedule->tasks.size(), 4u);
  EXPECT_EQ(outcome.schedule->tasks[2].begin, s(0.24 + 4));
  EXPECT_EQ(outcome.schedule->tasks[3].begin, s(0.24 + 7));
  EXPECT_EQ(outcome.schedule->tasks[3].start, 2);
  EXPECT_EQ(outcome.schedule->reconfigurations.size(), 2u);
  // 4g: one after the other, 18.13 s; 4x1g: 50 s and more.
  EXPECT_EQ(fixed(problem, with_argument("4")).schedule->makespan, s(18.13));
  EXPECT_EQ(fixed(problem, with_argument("4x1")).schedule->makespan, s(50 + 4 * 0.11));
  EXPECT_EQ(fixed_best(problem, {}).schedule->makespan, s(10.12));
}

TEST(Fixed, CreatesAndTheLayoutsOrderDecideWhatIsFreeFirst) {
  // Free at 0.12 + 4.11 on the left and 0.24 + 4 on the right: the third task goes left.
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  for (const double time : {4.11, 4.0, 1.0}) add_task(problem, {{2, time}});
  const auto last = [&] { return fixed(problem, with_argument("2+2")).schedule->tasks.back(); };
  EXPECT_EQ(last().task, "t3");
  EXPECT_EQ(last().start, 0);
  for (auto& time : problem.models[0].reconfiguration) time.create = Seconds{0};
  EXPECT_EQ(last().start, 2);
  problem.tasks[1].times[0][2] = s(4.11);
  EXPECT_EQ(last().start, 0);
}

TEST(Fixed, ATaskWaitsForAnInstanceThatItFits) {
  plan::BatchProblem problem = empty_batch({"A100-80GB"}, {0});
  add_task(problem, {{4, 10}});
  add_task(problem, {{4, 10}});
  add_task(problem, {{1, 5}, {2, 5}});
  const auto schedule = fixed(problem, with_argument("4g+2g+1g")).schedule;
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule_error(problem, *schedule), "");
  EXPECT_EQ(schedule->makespan, s(20.21));
}

TEST(Fixed, RefusesWhatHasNoRoom) {
  plan::BatchProblem problem = empty_batch({"A100-80GB"}, {0});
  add_task(problem, {{1, 5}});
  add_task(problem, {{7, 10}});
  const auto reason = [&](const Outcome& outcome) {
    return outcome.schedule
               ? ""
               : outcome.refusals.at(0).constraint + " " + outcome.refusals.at(0).subject;
  };
  EXPECT_EQ(reason(fixed(problem, with_argument("7x1g"))), "does_not_fit task t2");
  EXPECT_EQ(reason(fixed(problem, with_argument("7g"))), "does_not_fit task t1");
  EXPECT_EQ(reason(fixed_best(problem, {})).substr(0, 17), "does_not_fit task");
  EXPECT_EQ(reason(fixed(problem, with_argument("5g"))), "layout GPU model A100-80GB");
  EXPECT_EQ(reason(fixed(problem, with_argument("what"))), "argument scheduler fixed");
  problem.models.push_back(test_model("A30-24GB"));
  problem.gpus = {0, 1};
  for (plan::Task& task : problem.tasks) task.times.push_back(task.times[0]);
  EXPECT_EQ(reason(fixed(problem, with_argument("4g+3g"))), "layout GPU model A30-24GB");
}

TEST(Fixed, TheBestLayoutIsTheBestOfAll) {
  Rng rng(1);
  for (int round = 0; round < 40; ++round) {
    const bool a100 = round % 2 == 0;
    const auto problem = random_batch(empty_batch({a100 ? "A100-80GB" : "A30-24GB"}, {0, 0}),
                                      static_cast<int>(rng.below(30)), Shape::monotone, rng);
    const auto best = fixed_best(problem, {}).schedule;
    ASSERT_TRUE(best);
    plan::Nanos least = plan::kMaxBatchTime;
    const std::vector<const char*> layouts =
        a100 ? std::vector{"7",     "4+3",     "4+2+1", "4+3x1",   "3+3",     "3+2+1", "3+3x1",
                           "2+2+3", "3+2+2x1", "3+4x1", "2+2+2+1", "2+2+3x1", "2+5x1", "7x1"}
             : std::vector{"4", "2+2", "2+1+1", "4x1"};
    for (const char* layout : layouts) {
      const auto schedule = fixed(problem, with_argument(layout)).schedule;
      ASSERT_TRUE(schedule) << layout;
      EXPECT_EQ(schedule_error(problem, *schedule), "");
      least = std::min(least, schedule->makespan);
    }
    EXPECT_LE(best->makespan, least);
    EXPECT_EQ(schedule_error(problem, *best), "");
    EXPECT_EQ(fixed(problem, with_argument("7")).schedule.has_value(), a100);
  }
}

TEST(Fixed, RandomBatchesAreScheduledWholeOrRefused) {
  Rng rng(2);
  int refusals = 0;
  for (int round = 0; round < 200; ++round) {
    auto problem =
        random_batch(empty_batch({"A100-80GB", "A30-24GB"}, {0, 1, 0}),
                     static_cast<int>(rng.below(20)), static_cast<Shape>(rng.below(5)), rng);
    for (std::size_t t = 1; t < problem.tasks.size(); ++t) {
      if (rng.below(4) == 0) problem.tasks[t - 1].after = {problem.tasks[t].name};
      if (rng.below(4) == 0) problem.tasks[t].release = s(100 * rng.uniform());
    }
    const Outcome outcome =
        rng.below(2) == 0 ? fixed_best(problem, {}) : fixed(problem, with_argument("2+2"));
    EXPECT_EQ(outcome.schedule.has_value(), outcome.refusals.empty());
    if (outcome.schedule) {
      EXPECT_EQ(schedule_error(problem, *outcome.schedule), "");
    }
    refusals += !outcome.schedule;
  }
  EXPECT_GT(refusals, 0);
  EXPECT_LT(refusals, 150);
}

}  // namespace
}  // namespace partita::planners::batch
