// The parts of the search against second implementations: exhaustive search, realise(), and columns
// added up anew.
#include "planners/batch/search.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/test_rounds.h"
#include "planners/batch/anneal.h"
#include "planners/batch/best.h"
#include "planners/batch/branch.h"
#include "planners/batch/far.h"
#include "planners/batch/played.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

constexpr Shape kSearchShapes[] = {Shape::monotone, Shape::wild, Shape::equal, Shape::few_sizes,
                                   Shape::largest_only};

plan::BatchProblem some_batch(Rng& rng, int most) {
  const auto gpus = [&]() -> plan::BatchProblem {
    switch (rng.below(4)) {
      case 0:
        return empty_batch({"A30-24GB"}, {0});
      case 1:
        return empty_batch({"A30-24GB", "H100-80GB-SXM5"}, {0, 1});
      case 2:
        return empty_batch({"RTX-PRO-6000-96GB"}, {0, 0});
      default:
        return empty_batch({"A100-80GB"}, {0});
    }
  };
  const int count = 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(most)));
  return random_batch(gpus(), count, kSearchShapes[rng.below(5)], rng);
}

int some_node(const Forest& forest, int task, Rng& rng) {
  for (;;) {
    const int node = static_cast<int>(rng.below(forest.nodes.size()));
    if (forest.time(task, node) < kNever) return node;
  }
}

// Longest column of an assignment, column by column.
Nanos columns_anew(const Forest& forest, const std::vector<int>& assignment) {
  std::vector<Nanos> load(forest.nodes.size(), -1);
  for (int task = 0; task < forest.tasks; ++task) {
    const int node = assignment[static_cast<std::size_t>(task)];
    Nanos& sum = load[static_cast<std::size_t>(node)];
    sum = std::max(sum, Nanos{0}) + forest.time(task, node);
  }
  Nanos longest = 0;
  for (int column = 0; column < forest.columns(); ++column) {
    Nanos busy = 0, saved = 0;
    for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
      const Node& node = forest.nodes[v];
      const bool covers = node.first_column <= column && column < node.first_column + node.columns;
      if (!covers || load[v] < 0) continue;
      busy += node.create + load[v] + node.destroy;
      saved = std::max(saved, node.destroy);
    }
    longest = std::max(longest, busy - saved);
  }
  return longest;
}

TEST(Loads, FollowsMovesAndSwaps) {
  Rng rng(1);
  for (int round = 0; round < 60; ++round) {
    const plan::BatchProblem problem = some_batch(rng, 12);
    const Forest forest = *make_forest(problem);
    Loads loads(forest);
    for (int task = 0; task < forest.tasks; ++task) {
      loads.place(task, some_node(forest, task, rng));
    }
    for (int step = 0; step < 40; ++step) {
      const int a = static_cast<int>(rng.below(static_cast<std::uint64_t>(forest.tasks)));
      const int b = static_cast<int>(rng.below(static_cast<std::uint64_t>(forest.tasks)));
      const bool fits =
          forest.time(a, loads.node_of(b)) < kNever && forest.time(b, loads.node_of(a)) < kNever;
      if (step % 3 == 0 && a != b && fits) {
        loads.swap(a, b);
      } else if (step % 3 == 1) {
        loads.remove(a);
        loads.place(a, some_node(forest, a, rng));
      } else {
        loads.move(a, some_node(forest, a, rng));
      }
      ASSERT_EQ(loads.longest(), columns_anew(forest, loads.assignment()));
    }
  }
}

TEST(Played, TakesAsLongAsRealise) {
  Rng rng(2);
  for (int round = 0; round < 150; ++round) {
    const plan::BatchProblem problem = some_batch(rng, 15);
    const Forest forest = *make_forest(problem);
    std::vector<int> assignment;
    for (int task = 0; task < forest.tasks; ++task) {
      assignment.push_back(some_node(forest, task, rng));
    }
    Played played(forest, assignment);
    for (int step = 0; step < 5; ++step) {
      const int task = static_cast<int>(rng.below(static_cast<std::uint64_t>(forest.tasks)));
      played.move(task, some_node(forest, task, rng));
    }
    const std::vector<int> order = longest_first(forest, played.assignment());
    const auto physical = realise(forest, played.visits(order), Service::longest_tail);
    ASSERT_EQ(physical->makespan, played.longest());
    // The better direction, where all GPUs go the same way.
    if (forest.gpus > 1) continue;
    for (const Direction direction : {Direction::forward, Direction::reverse}) {
      const Visits visits = visits_of(forest, played.assignment(), direction, order);
      ASSERT_GE(realise(forest, visits, Service::longest_tail)->makespan, played.longest());
    }
    ASSERT_GE(played.longest(), columns_anew(forest, played.assignment()));
  }
}

Nanos shortest_by_trying_all(const Forest& forest, std::vector<int>& assignment, std::size_t task) {
  if (task == assignment.size()) return columns_anew(forest, assignment);
  Nanos shortest = kNever;
  for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
    if (forest.time(static_cast<int>(task), v) >= kNever) continue;
    assignment[task] = v;
    shortest = std::min(shortest, shortest_by_trying_all(forest, assignment, task + 1));
  }
  return shortest;
}

TEST(Branch, FindsWhatTryingAllFinds) {
  Rng rng(3);
  for (int round = 0; round < 120; ++round) {
    const plan::BatchProblem problem = some_batch(rng, 4);
    const Forest forest = *make_forest(problem);
    if (forest.nodes.size() > 14 && forest.tasks > 3) continue;
    std::vector<int> all(static_cast<std::size_t>(forest.tasks));
    const Nanos shortest = shortest_by_trying_all(forest, all, 0);
    std::iota(all.begin(), all.end(), 0);
    Branch branch(forest);
    const BranchResult result = branch.run(
        Loads(forest), {.free = all, .gpus = {}, .cutoff = shortest + 1, .budget = 1'000'000});
    ASSERT_TRUE(result.found && result.complete);
    EXPECT_EQ(result.length, shortest);
    EXPECT_EQ(columns_anew(forest, result.nodes), shortest);
    // Nothing is shorter than the shortest.
    const BranchResult none = branch.run(
        Loads(forest), {.free = all, .gpus = {}, .cutoff = shortest, .budget = 1'000'000});
    EXPECT_TRUE(!none.found && none.complete);
  }
}

// 3g at 0 lies within 4g at 0 and blocks the same slices. Here the first three tasks share one 3g,
// the others the other, although some are shorter on 4g: that would cost a create and a destroy.
TEST(Branch, KeepsATaskBesideOneThatNeedsTheInstance) {
  plan::BatchProblem problem = empty_batch({"A100-80GB"}, {0});
  add_task(problem, {{3, 3}, {4, 9}});
  add_task(problem, {{3, 0.5}, {4, 0.45}});
  add_task(problem, {{3, 0.5}, {4, 0.45}});
  add_task(problem, {{3, 2.5}, {4, 9}});
  add_task(problem, {{3, 1.5}, {4, 1.4}});
  const Forest forest = *make_forest(problem);
  std::vector<int> all(5);
  const Nanos shortest = shortest_by_trying_all(forest, all, 0);
  EXPECT_EQ(shortest, plan::nanos(Seconds{4.2}));
  const BranchResult result = Branch(forest).run(
      Loads(forest), {.free = {0, 1, 2, 3, 4}, .gpus = {}, .cutoff = kNever, .budget = 100'000});
  ASSERT_TRUE(result.found && result.complete);
  EXPECT_EQ(result.length, shortest);
}

// A few free tasks among others that stay: the same as trying all places of the free ones.
TEST(Branch, LeavesTheOthersWhereTheyAre) {
  Rng rng(4);
  for (int round = 0; round < 60; ++round) {
    const plan::BatchProblem problem =
        random_batch(empty_batch({"A100-80GB"}, {0, 0}), 9, kSearchShapes[rng.below(5)], rng);
    const Forest forest = *make_forest(problem);
    Loads loads(forest);
    for (int task = 0; task < 9; ++task) loads.place(task, some_node(forest, task, rng));
    Nanos shortest = kNever;
    std::vector<int> trial = loads.assignment();
    for (int a = 0; a < 28; ++a) {
      for (int b = 0; b < 28; ++b) {
        if (forest.time(2, a) >= kNever || forest.time(7, b) >= kNever) continue;
        trial[2] = a;
        trial[7] = b;
        shortest = std::min(shortest, columns_anew(forest, trial));
      }
    }
    const BranchResult result =
        Branch(forest).run(loads, {.free = {2, 7}, .gpus = {}, .cutoff = kNever, .budget = 10'000});
    ASSERT_TRUE(result.found && result.complete);
    EXPECT_EQ(result.length, shortest);
  }
}

TEST(Branch, StopsAtItsBudget) {
  Rng rng(5);
  const plan::BatchProblem problem =
      random_batch(empty_batch({"A100-80GB"}, {0}), 30, Shape::monotone, rng);
  const Forest forest = *make_forest(problem);
  std::vector<int> all(30);
  std::iota(all.begin(), all.end(), 0);
  const BranchResult result = Branch(forest).run(
      Loads(forest), {.free = all, .gpus = {}, .cutoff = area_bound(forest) + 1, .budget = 1000});
  EXPECT_LE(result.steps, 1001);
}

TEST(Anneal, NeverLongerThanItsStart) {
  Rng rng(6);
  for (int round = 0; round < 20; ++round) {
    const plan::BatchProblem problem = some_batch(rng, 20);
    const Forest forest = *make_forest(problem);
    const std::vector<int> start = greedy(forest);
    const std::vector<int> cool = anneal(forest, start, {.seed = 1, .steps = 2000});
    EXPECT_LE(columns_anew(forest, cool), columns_anew(forest, start));
    EXPECT_EQ(cool, anneal(forest, start, {.seed = 1, .steps = 2000}));
    const std::vector<int> settled = anneal_played(forest, start, {.seed = 1, .steps = 500});
    EXPECT_LE(Played(forest, settled).longest(), Played(forest, start).longest());
  }
}

TEST(Search, PoolIsSortedAndBounded) {
  Rng rng(7);
  for (int round = 0; round < 20; ++round) {
    const plan::BatchProblem problem = some_batch(rng, 10);
    const Forest forest = *make_forest(problem);
    const Found found = search(forest, {greedy(forest)},
                               {.seed = 1, .heuristic_steps = 5000, .proof_steps = 1'000'000});
    EXPECT_EQ(found.lower_bound, found.length);  // so small a batch is proven
    ASSERT_LE(found.pool.size(), kPoolSize);
    Nanos previous = 0;
    for (const std::vector<int>& assignment : found.pool) {
      const Nanos length = columns_anew(forest, assignment);
      EXPECT_GT(length, previous);
      previous = length;
    }
    EXPECT_EQ(columns_anew(forest, found.pool.front()), found.length);
  }
}

// The A30 batch of eight Rodinia kernels: FAR 29.49 s, the optimum 28.434 s is the bound.
TEST(Best, RodiniaOnA30) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{1, 1.26246}, {2, 1.1136}, {4, 1.18849}});
  add_task(problem, {{1, 0.79506}, {2, 0.43174}, {4, 0.501269}});
  add_task(problem, {{1, 8.59878}, {2, 8.10589}, {4, 8.53057}});
  add_task(problem, {{2, 21.697}, {4, 17.3214}});
  add_task(problem, {{1, 0.314573}, {2, 0.24474}, {4, 0.316071}});
  add_task(problem, {{1, 1.26794}, {2, 1.01038}, {4, 1.01767}});
  add_task(problem, {{1, 22.3109}, {2, 11.517}, {4, 6.38692}});
  add_task(problem, {{1, 20.5527}, {2, 20.4842}, {4, 20.6617}});
  for (const auto scheduler : {best, exact}) {
    const plan::BatchSchedule schedule = *scheduler(problem, {}).schedule;
    EXPECT_NEAR(plan::seconds(schedule.makespan).value, 28.434, 0.001);
    EXPECT_EQ(schedule.lower_bound, schedule.makespan);
    EXPECT_TRUE(schedule.optimal);
  }
}

// Whoever pays for more gets no longer schedule and no lower bound, by both searches.
TEST(Best, MoreBudgetIsNeverWorse) {
  Rng rng(8);
  for (int round = 0; round < test_rounds(8); ++round) {
    const plan::BatchProblem problem = some_batch(rng, 30);
    for (const auto scheduler : {best, exact}) {
      Nanos makespan = INT64_MAX, bound = 0;
      for (const long budget : {1L, 100L, 5'000L, 20'000L, 60'000L, 120'000L, 300'000L, 560'000L}) {
        Options options;
        options.budget = budget;
        const plan::BatchSchedule schedule = *scheduler(problem, options).schedule;
        EXPECT_LE(schedule.makespan, makespan) << "round " << round << ", budget " << budget;
        EXPECT_GE(schedule.lower_bound, bound) << "round " << round << ", budget " << budget;
        makespan = schedule.makespan;
        bound = schedule.lower_bound;
      }
    }
  }
}

TEST(Best, NoTasksAndOneTask) {
  plan::BatchProblem problem = empty_batch({"A100-80GB"}, {0});
  const plan::BatchSchedule nothing = *best(problem, {}).schedule;
  EXPECT_EQ(nothing.makespan, 0);
  EXPECT_TRUE(nothing.optimal);
  add_task(problem, {{3, 2}});
  const plan::BatchSchedule one = *best(problem, {}).schedule;
  EXPECT_EQ(one.makespan, plan::nanos(Seconds{2.2}));
  EXPECT_TRUE(one.optimal);
  problem.tasks[0].times[0] = {};
  const Outcome refused = best(problem, {});
  ASSERT_FALSE(refused.schedule);
  EXPECT_EQ(refused.refusals.at(0).constraint, "does_not_fit");
}

}  // namespace
}  // namespace partita::planners::batch
