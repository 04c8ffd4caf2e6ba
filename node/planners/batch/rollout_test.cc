#include "planners/batch/rollout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hw/catalogue.h"
#include "planners/batch/tail.h"

namespace partita::planners::batch {
namespace {

constexpr Nanos kSec = 1'000'000'000;

// Tasks of 40 s on one slice that gain a little by more, the first waiting, the others released as
// told.
TimedBatch future_of(const std::vector<Nanos>& releases) {
  plan::BatchProblem problem{{}, {*hw::builtin_catalogue().find("A100-80GB")}, {0}};
  for (const Nanos release : releases) {
    plan::Task task{.name = "t" + std::to_string(problem.tasks.size()), .times = {{}}};
    for (const int gpcs : {1, 2, 3, 4, 7}) task.times[0][gpcs] = (40 - gpcs) * kSec;
    task.release = release;
    problem.tasks.push_back(std::move(task));
  }
  return make_timed(problem, *make_forest(problem));
}

int columns_of(const TimedBatch& future, int columns) {
  for (std::size_t v = 0; v < future.forest.nodes.size(); ++v)
    if (future.forest.nodes[v].columns == columns) return static_cast<int>(v);
  return -1;
}

TEST(Rollout, ATaskHasAllWhereNobodyComesAndLittleWhereMoreDo) {
  const std::vector<Nanos> soon(7, kSec), late(7, 1'000 * kSec);
  for (const auto& [others, columns] : {std::pair(late, 8), {soon, 1}}) {
    std::vector<Nanos> releases = {0};
    releases.insert(releases.end(), others.begin(), others.end());
    const TimedBatch future = future_of(releases);
    const int largest = future.forest.first_column[1];
    for (const int start : {1, 2, largest}) {
      const int node = columns_of(future, start);
      ASSERT_GE(node, 0);
      const Choice choice = rolled_out({future, future}, {{0}, {node}}, {});
      EXPECT_EQ(future.forest.nodes[at(choice.node[0])].columns, std::min(columns, largest));
    }
  }
}

// What comes later is not before what it comes after, and every task is there once.
TEST(Rollout, KeepsOrderAndTasks) {
  TimedBatch future = future_of({0, 0, 0, 2 * kSec, 3 * kSec});
  future.before[2] = {1};
  future.behind[1] = {2};
  const int whole = columns_of(future, future.forest.first_column[1]);
  Choice choice = rolled_out({future}, {{0, 1, 2}, {whole, whole, whole}}, {});
  const auto place = [&](int t) { return std::ranges::find(choice.order, t); };
  EXPECT_LT(place(1), place(2));
  std::ranges::sort(choice.order);
  EXPECT_EQ(choice.order, (std::vector<int>{0, 1, 2}));
}

// A task that the plan ends late is not made to end later, however much that helps
// others; without that it is.
TEST(Rollout, WhatIsLongEndsNoLaterThanByThePlan) {
  const TimedBatch future = future_of(std::vector<Nanos>{0, kSec, kSec, kSec, kSec, kSec, kSec});
  const int whole = columns_of(future, future.forest.first_column[1]);
  const Choice kept = rolled_out({future}, {{0}, {whole}}, {.late = 10 * kSec});
  EXPECT_EQ(kept.node[0], whole);
  EXPECT_NE(rolled_out({future}, {{0}, {whole}}, {}).node[0], whole);
}

}  // namespace
}  // namespace partita::planners::batch
