#include "planners/batch/physical.h"

#include <gtest/gtest.h>

#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

using Kind = plan::Reconfiguration::Op;

// An A30: node 0 is 4g, 1 and 4 are 2g, 2 3 5 6 are 1g. Creates 0.11, 0.12, 0.13, destroys 0.10.
plan::BatchProblem three_tasks() {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{1, 9}, {2, 5}, {4, 3}});
  add_task(problem, {{1, 4}, {2, 2}, {4, 1}});
  add_task(problem, {{1, 6}, {2, 4}, {4, 2}});
  return problem;
}

void expect_op(const Op& op, Kind kind, int node, double begin, double end) {
  EXPECT_EQ(op.op, kind);
  EXPECT_EQ(op.node, node);
  EXPECT_EQ(op.begin, s(begin));
  EXPECT_EQ(op.end, s(end));
}

TEST(Physical, LargeThenSmallByHand) {
  const plan::BatchProblem problem = three_tasks();
  const Forest forest = *make_forest(problem);
  // Task 0 on everything, then 1 on the left half and 2 on the right one.
  const Visits visits = {{0, {0}}, {1, {1}}, {4, {2}}};
  const Physical first = *realise(forest, visits, Service::first_ready);
  ASSERT_EQ(first.ops.size(), 4U);
  expect_op(first.ops[0], Kind::create, 0, 0, 0.13);
  expect_op(first.ops[1], Kind::destroy, 0, 3.13, 3.23);
  expect_op(first.ops[2], Kind::create, 1, 3.23, 3.35);
  expect_op(first.ops[3], Kind::create, 4, 3.35, 3.47);
  EXPECT_EQ(first.makespan, s(7.47));
  // The longer task first.
  const Physical tail = *realise(forest, visits, Service::longest_tail);
  expect_op(tail.ops[2], Kind::create, 4, 3.23, 3.35);
  EXPECT_EQ(tail.makespan, s(7.35));
  EXPECT_EQ(tail.begin, (std::vector<Nanos>{s(0.13), s(3.47), s(3.35)}));
  EXPECT_EQ(tail.end, (std::vector<Nanos>{s(3.13), s(5.47), s(7.35)}));
  // What comes next finds both halves alive.
  ASSERT_EQ(tail.after.alive.size(), 2U);
  EXPECT_EQ(tail.after.column, (std::vector<Nanos>{s(5.47), s(5.47), s(7.35), s(7.35)}));
}

TEST(Physical, ContinuesOnInstancesThatExist) {
  const plan::BatchProblem problem = three_tasks();
  const Forest forest = *make_forest(problem);
  const Start start{.alive = {{1, s(10)}, {4, s(12)}},
                    .column = {s(10), s(10), s(12), s(12)},
                    .reconfigurer = {s(12)}};
  const Physical same = *realise(forest, {{1, {0}}, {4, {1}}}, Service::first_ready, start);
  EXPECT_TRUE(same.ops.empty());
  EXPECT_EQ(same.end[0], s(15));
  EXPECT_EQ(same.end[1], s(14));
  // A larger instance waits for both and their destroys; the reconfigurer is busy until 12.
  const Physical other = *realise(forest, {{0, {2}}}, Service::first_ready, start);
  ASSERT_EQ(other.ops.size(), 3U);
  expect_op(other.ops[1], Kind::destroy, 4, 12.1, 12.2);
  expect_op(other.ops[2], Kind::create, 0, 12.2, 12.33);
  EXPECT_EQ(other.makespan, s(14.33));
}

TEST(Physical, WaitsForReleasesAndPredecessors) {
  plan::BatchProblem problem = three_tasks();
  problem.tasks[1].release = s(2);
  problem.tasks[2].after = {"t2"};
  const Forest forest = *make_forest(problem);
  const Visits visits = {{1, {1, 0}}, {4, {2}}};
  const Physical physical = *realise(forest, visits, Service::first_ready, {}, &problem);
  EXPECT_EQ(physical.begin, (std::vector<Nanos>{s(4), s(2), s(4)}));
  // Task 2 waits for task 1, which comes after it on the same slices.
  EXPECT_FALSE(realise(forest, {{0, {2}}, {1, {1, 0}}}, Service::first_ready, {}, &problem));
}

TEST(Physical, TreeOrdersOfAnAssignment) {
  const plan::BatchProblem problem = three_tasks();
  const Forest forest = *make_forest(problem);
  const std::vector<int> assignment = {2, 0, 2};
  const std::vector<int> order = longest_first(forest, assignment);
  EXPECT_EQ(order, (std::vector<int>{0, 2, 1}));
  const Visits forward = visits_of(forest, assignment, Direction::forward, order);
  ASSERT_EQ(forward.size(), 2U);
  EXPECT_EQ(forward[0].node, 0);
  EXPECT_EQ(forward[1].tasks, (std::vector<int>{0, 2}));
  const Visits reverse = visits_of(forest, assignment, Direction::reverse, order);
  EXPECT_EQ(reverse[0].node, 2);
  plan::BatchProblem weighted = problem;
  weighted.tasks[2].priority = 100;
  EXPECT_EQ(smith_order(forest, weighted, assignment), (std::vector<int>{2, 1, 0}));
}

}  // namespace
}  // namespace partita::planners::batch
