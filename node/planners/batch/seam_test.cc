// The edge kept by Seam against realise(), and what moves and swaps do to it.
#include "planners/batch/seam.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "hw/catalogue.h"
#include "planners/batch/concatenate.h"
#include "planners/batch/onto.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

// Tasks of random times, some of which do not fit everywhere.
Forest random_forest(Rng& rng, const std::vector<std::string>& gpus, int tasks, bool free_ops) {
  plan::BatchProblem problem;
  for (const std::string& gpu : gpus) {
    problem.gpus.push_back(static_cast<int>(problem.models.size()));
    problem.models.push_back(*hw::builtin_catalogue().find(gpu));
    if (free_ops) problem.models.back().reconfiguration.clear();
  }
  for (int t = 0; t < tasks; ++t) {
    plan::Task task{.name = "t" + std::to_string(t), .times = {}};
    task.times.resize(problem.models.size());
    const bool large = rng.below(5) == 0;
    for (plan::SizeTimes& times : task.times) {
      for (const int gpcs : {1, 2, 3, 4, 7}) {
        if (gpcs > 1 || !large) times[gpcs] = s(1 + 50 * rng.uniform());
      }
    }
    problem.tasks.push_back(task);
  }
  return *make_forest(problem);
}

int some_spot(Rng& rng, const Seam& seam, int task) {
  while (true) {
    const int spot = static_cast<int>(rng.below(seam.spots().size()));
    if (seam.fits(task, spot)) return spot;
  }
}

void place_randomly(Rng& rng, const Forest& forest, Seam& seam) {
  for (int t = 0; t < forest.tasks; ++t) seam.place(t, some_spot(rng, seam, t));
}

// The better of both service rules.
Physical realised_best(const Forest& forest, const Visits& visits, const Start& start) {
  Physical tail = *realise(forest, visits, Service::longest_tail, start);
  Physical first = *realise(forest, visits, Service::first_ready, start);
  return first.makespan < tail.makespan ? first : tail;
}

Physical realised(const Forest& forest, const Seam& seam, const Start& start) {
  return realised_best(forest, seam.visits(longest_first(forest, seam.nodes())), start);
}

// What a random batch on the same GPUs leaves behind.
Start random_start(Rng& rng, const Forest& forest) {
  Seam before(forest, {}, 0);
  place_randomly(rng, forest, before);
  return realised(forest, before, {}).after;
}

const std::vector<std::vector<std::string>> kFleets = {
    {"A100-80GB"}, {"A30-24GB"}, {"H100-80GB-SXM5", "A30-24GB"}, {"A100-80GB", "H100-80GB-SXM5"}};

TEST(Seam, WithoutReconfigurationTimesIsWhatRealiseLeaves) {
  Rng rng(1);
  for (int round = 0; round < 400; ++round) {
    const auto& fleet = kFleets[at(round) % kFleets.size()];
    const Forest forest = random_forest(rng, fleet, 1 + static_cast<int>(rng.below(12)), true);
    const Start start = random_start(rng, forest);
    Seam seam(forest, start, 0);
    place_randomly(rng, forest, seam);
    const Physical physical = realised(forest, seam, start);
    EXPECT_EQ(seam.ends(), column_ends(forest, physical.after)) << round;
    EXPECT_EQ(seam.end(), std::ranges::max(seam.ends()));
  }
}

TEST(Seam, IsAtMostEarlierThanRealiseByReconfigurationsThatWaitForEachOther) {
  Rng rng(2);
  for (int round = 0; round < 400; ++round) {
    const auto& fleet = kFleets[at(round) % kFleets.size()];
    const Forest forest = random_forest(rng, fleet, 1 + static_cast<int>(rng.below(12)), false);
    const Start start = random_start(rng, forest);
    Seam seam(forest, start, 0);
    place_randomly(rng, forest, seam);
    const Physical physical = realised(forest, seam, start);
    Nanos ops = 0;
    for (const Op& op : physical.ops) ops += op.end - op.begin;
    EXPECT_LE(seam.end(), std::ranges::max(column_ends(forest, physical.after))) << round;
    EXPECT_LE(physical.makespan, seam.end() + ops) << round;
  }
}

TEST(Seam, ChangesAndTheirReversalsEqualAFreshStart) {
  Rng rng(3);
  for (int round = 0; round < 100; ++round) {
    const Forest forest = random_forest(rng, kFleets[at(round) % kFleets.size()], 8, false);
    const Start start = random_start(rng, forest);
    const double level = 3e10;
    Seam seam(forest, start, level);
    place_randomly(rng, forest, seam);
    for (int change = 0; change < 50; ++change) {
      const int a = static_cast<int>(rng.below(8)), b = static_cast<int>(rng.below(8));
      if (rng.below(2) == 0) {
        seam.move(a, some_spot(rng, seam, a));
      } else if (a != b && seam.fits(a, seam.spot(b)) && seam.fits(b, seam.spot(a))) {
        seam.swap(a, b);
      } else {
        continue;
      }
      if (rng.below(2) == 0) seam.revert();
    }
    Seam fresh(forest, start, level);
    fresh.place_all(seam.assignment());
    const Edge edge = edge_of(fresh.ends(), level);
    EXPECT_EQ(seam.end(), edge.end);
    EXPECT_NEAR(seam.area(), edge.area, 1e-6 * std::abs(edge.area) + 1);
    EXPECT_NEAR(seam.squares(), edge.squares, 1e-6 * edge.squares + 1);
    EXPECT_EQ(seam.ends(), fresh.ends());
  }
}

// An A30 whose columns are free at 0, 0, 0 and 25 s; four tasks of 10 s, all on its first slice.
class Refitting : public testing::Test {
 protected:
  Forest forest() {
    plan::BatchProblem problem{{}, {*hw::builtin_catalogue().find("A30-24GB")}, {0}};
    problem.models[0].reconfiguration.clear();
    for (const char* name : {"a", "b", "c", "d"}) {
      plan::Task task{.name = name, .times = {{}}};
      for (const int gpcs : {1, 2, 4}) task.times[0][gpcs] = s(10);
      problem.tasks.push_back(task);
    }
    return *make_forest(problem);
  }

  static int first_slice(const Forest& forest) {
    for (int v = 0; v < static_cast<int>(forest.nodes.size()); ++v) {
      if (forest.nodes[at(v)].columns == 1 && forest.nodes[at(v)].first_column == 0) return v;
    }
    return -1;
  }

  const Start start_{{}, {0, 0, 0, s(25)}, {0}};
};

TEST_F(Refitting, FillsTheGapsOfTheEdge) {
  const Forest forest = this->forest();
  const std::vector<int> assignment(4, first_slice(forest));
  for (const Direction direction : {Direction::forward, Direction::reverse}) {
    const Refit refitted = refit(forest, assignment, start_, direction);
    EXPECT_EQ(refitted.swaps, 0);
    EXPECT_GE(refitted.moves, 2);
    const Physical physical = realised_best(forest, refitted.visits, start_);
    EXPECT_EQ(physical.makespan, s(20));  // 2 + 1 + 1 on the three free slices
  }
}

TEST_F(Refitting, AfterAllNothingBeginsBeforeTheLastEnd) {
  const Forest forest = this->forest();
  const Start later = after_all(forest, start_);
  EXPECT_EQ(later.column, std::vector<Nanos>(4, s(25)));
  EXPECT_EQ(later.reconfigurer, std::vector<Nanos>{s(25)});
}

TEST(Refit, NeverEndsLaterAndKeepsEveryTaskAtItsSize) {
  Rng rng(4);
  int improved = 0;
  for (int round = 0; round < 200; ++round) {
    const Forest forest = random_forest(rng, kFleets[at(round) % kFleets.size()], 15, true);
    const Start start = random_start(rng, forest);
    const Direction direction = round % 2 == 0 ? Direction::forward : Direction::reverse;
    Seam seam(forest, {}, 0);
    place_randomly(rng, forest, seam);
    const std::vector<int> nodes = seam.nodes();
    const Refit refitted = refit(forest, nodes, start, direction);
    const Visits plain = visits_of(forest, nodes, direction, longest_first(forest, nodes));
    const Physical before = realised_best(forest, plain, start);
    const Physical after = realised_best(forest, refitted.visits, start);
    EXPECT_LE(after.makespan, before.makespan) << round;
    improved += after.makespan < before.makespan;
    for (int t = 0; t < forest.tasks; ++t) {
      ASSERT_GE(after.node[at(t)], 0);
      EXPECT_EQ(forest.nodes[at(after.node[at(t)])].size_class,
                forest.nodes[at(nodes[at(t)])].size_class);
    }
  }
  EXPECT_GT(improved, 100);
}

TEST(Onto, FindsTheOnlyPerfectFit) {
  // Four slices free at 0, 10, 20, 30 s; tasks of 40, 30, 20, 10 s that run on one slice only.
  plan::BatchProblem problem{{}, {*hw::builtin_catalogue().find("A30-24GB")}, {0}};
  problem.models[0].reconfiguration.clear();
  for (const double time : {20.0, 40.0, 10.0, 30.0}) {
    plan::Task task{.name = std::to_string(time), .times = {{}}};
    task.times[0][1] = s(time);
    problem.tasks.push_back(task);
  }
  const Forest forest = *make_forest(problem);
  const Start start{{}, {0, s(10), s(20), s(30)}, {0}};
  for (const Outlook outlook : {Outlook::more, Outlook::last}) {
    const Aim aim(forest, start, outlook);
    EXPECT_EQ(aim.level(), 40e9);
    const Visits visits = plan_onto(forest, start, aim, 4'000, 1);
    const Physical physical = realised_best(forest, visits, start);
    EXPECT_EQ(column_ends(forest, physical.after), std::vector<Nanos>(4, s(40)));
    EXPECT_EQ(plan_onto(forest, start, aim, 4'000, 1)[0].tasks, visits[0].tasks);
  }
}

}  // namespace
}  // namespace partita::planners::batch
