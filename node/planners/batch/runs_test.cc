// What a budget pays for, and that nothing else decides it.
#include "planners/batch/runs.h"

#include <gtest/gtest.h>

#include "planners/batch/best.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

constexpr long kUsual = 65'536 * 4;

Options budget_of(long steps) {
  Options options;
  options.budget = steps;
  return options;
}

struct Paid {
  std::vector<long> steps;
  std::vector<std::uint64_t> seeds;
  long spent = 0;
};

Paid paid_by(const Options& options) {
  Runs runs(kUsual, options);
  Paid paid;
  while (const auto run = runs.next()) {
    paid.steps.push_back(run->steps);
    paid.seeds.push_back(run->seed);
  }
  paid.spent = runs.spent();
  return paid;
}

TEST(Runs, ABudgetPaysForWholeRuns) {
  using Steps = std::vector<long>;
  EXPECT_EQ(paid_by(budget_of(1)).steps, Steps({0}));
  EXPECT_EQ(paid_by(budget_of(4)).steps, Steps({0, 4}));
  EXPECT_EQ(paid_by(budget_of(1'023)).steps, Steps({0, 4, 64}));
  EXPECT_EQ(paid_by(budget_of(kUsual - 1)).steps, Steps({0, 4, 64, 1'024, 16'384}));
  // The default is the usual run.
  const Steps usual = {0, 4, 64, 1'024, 16'384, kUsual};
  EXPECT_EQ(paid_by(budget_of(0)).steps, usual);
  EXPECT_EQ(paid_by(budget_of(kUsual)).steps, usual);
  EXPECT_EQ(paid_by(budget_of(2 * kUsual - 1)).steps, usual);
  Steps more = usual;
  for (const long times : {1, 1, 2, 2, 4}) more.push_back(times * kUsual);
  EXPECT_EQ(paid_by(budget_of(11 * kUsual)).steps, more);
  EXPECT_EQ(paid_by(budget_of(11 * kUsual)).spent, 11 * kUsual);
}

// All runs up to the usual one have the given seed, each other one its own.
TEST(Runs, RestartsHaveSeedsOfTheirOwn) {
  Options options = budget_of(11 * kUsual);
  options.seed = 7;
  const std::vector<std::uint64_t> seeds = paid_by(options).seeds;
  ASSERT_EQ(seeds.size(), 11u);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(seeds[i] == seeds[j], i < 6);
  }
}

// Whoever stops a search between two runs learns the budget that stops it there.
TEST(Runs, WhatWasStoppedCanBeHadAgain) {
  Rng rng(3);
  const plan::BatchProblem problem =
      random_batch(empty_batch({"A100-80GB"}, {0}), 24, Shape::monotone, rng);
  for (int runs = 1; runs < 8; ++runs) {
    Options stopped = budget_of(1'000'000'000);
    int asked = 1;
    stopped.go_on = [&](long spent, long next) {
      EXPECT_LT(spent, next);
      return ++asked <= runs;
    };
    const Outcome outcome = best(problem, stopped);
    EXPECT_EQ(asked, runs + 1);
    const Outcome again = best(problem, budget_of(outcome.budget));
    EXPECT_EQ(again.schedule, outcome.schedule);
    EXPECT_EQ(again.budget, outcome.budget);
  }
}

}  // namespace
}  // namespace partita::planners::batch
