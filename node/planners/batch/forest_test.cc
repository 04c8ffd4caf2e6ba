#include "planners/batch/forest.h"

#include <gtest/gtest.h>

#include "hw/layout.h"
#include "planners/batch/testing/test_batches.h"

namespace partita::planners::batch {
namespace {

TEST(Forest, A100HasFourteenNodesOnSevenColumns) {
  plan::BatchProblem problem = empty_batch({"A100-80GB"}, {0});
  add_task(problem, {{1, 10}, {2, 6}, {3, 4}, {4, 3.5}, {7, 2}});
  const Forest forest = *make_forest(problem);
  ASSERT_EQ(forest.nodes.size(), 14U);
  EXPECT_EQ(forest.columns(), 7);  // the eighth memory slice decides nothing
  // 7g, then 4g at 0 around 3g at 0 around two pairs, then 3g at 4 around a pair and a single one.
  const std::vector<int> columns = {7, 4, 4, 2, 1, 1, 2, 1, 1, 3, 2, 1, 1, 1};
  const std::vector<int> parents = {-1, 0, 1, 2, 3, 3, 2, 6, 6, 0, 9, 10, 10, 9};
  for (std::size_t v = 0; v < forest.nodes.size(); ++v) {
    EXPECT_EQ(forest.nodes[v].columns, columns[v]) << v;
    EXPECT_EQ(forest.nodes[v].parent, parents[v]) << v;
  }
  EXPECT_EQ(forest.nodes[0].create, plan::nanos(Seconds{0.24}));
  EXPECT_EQ(forest.nodes[13].destroy, plan::nanos(Seconds{0.20}));
  EXPECT_TRUE(forest.conflict(1, 8));
  EXPECT_FALSE(forest.conflict(1, 9));
}

// Nodes, columns and least columns per size by hand, on every model of the catalogue.
TEST(Forest, EveryModelOfTheCatalogue) {
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    plan::BatchProblem problem = empty_batch({model.name.c_str()}, {0, 0});
    const Forest forest = *make_forest(problem);
    const bool four = model.compute_slices == 4;
    EXPECT_EQ(forest.nodes.size(), four ? 14U : 28U) << model.name;
    EXPECT_EQ(forest.columns(), four ? 8 : 14) << model.name;
    const std::vector<int> expected = four ? std::vector{1, 2, 4} : std::vector{1, 2, 3, 4, 7};
    EXPECT_EQ(forest.class_columns, expected) << model.name;
  }
}

TEST(Forest, RefusesInstancesThatOverlapWithoutNesting) {
  hw::GpuModel model = test_model("A30-24GB");
  for (hw::MigProfile& profile : model.profiles) {
    if (profile.gpcs == 2 && profile.plain()) profile.starts = {0, 1, 2};
  }
  const auto forest = make_forest({.tasks = {}, .models = {model}, .gpus = {0}});
  ASSERT_FALSE(forest);
  EXPECT_NE(forest.error().message.find("overlap"), std::string::npos);
}

TEST(Forest, RefusesDisjointInstancesThatCannotExistTogether) {
  hw::GpuModel model = test_model("A30-24GB");
  for (hw::MigProfile& profile : model.profiles) {
    if (profile.gpcs == 1 && profile.plain()) profile.max_instances = 3;
  }
  EXPECT_FALSE(make_forest({.tasks = {}, .models = {model}, .gpus = {0}}));
}

TEST(Forest, AreaBoundByHand) {
  plan::BatchProblem problem = empty_batch({"A30-24GB"}, {0});
  add_task(problem, {{1, 8}, {2, 3}, {4, 2}});  // least area 6
  add_task(problem, {{4, 5}});                  // 20; alone 5.13 with its create
  const Forest forest = *make_forest(problem);
  EXPECT_EQ(least_area(forest, 0), plan::nanos(Seconds{6}));
  EXPECT_EQ(area_bound(forest), plan::nanos(Seconds{26.0 / 4 + 0.11}));
  problem.tasks.erase(problem.tasks.begin());
  EXPECT_EQ(area_bound(*make_forest(problem)), plan::nanos(Seconds{5.13}));
  problem.tasks.clear();
  EXPECT_EQ(area_bound(*make_forest(problem)), 0);
}

// Two nodes conflict where hw says that they cannot exist together, and what does not conflict
// pairwise can exist together.
TEST(Forest, NodesOfAllProfilesConflictAsTheCatalogueSays) {
  for (const hw::GpuModel& model : hw::builtin_catalogue().gpus) {
    SCOPED_TRACE(model.name);
    const Forest forest = *make_whole_forest({{}, {model}, {0}});
    const auto placed = [&](int v) {
      return hw::PlacedProfile{forest.nodes[at(v)].profile, forest.nodes[at(v)].start};
    };
    const int count = static_cast<int>(forest.nodes.size());
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < a; ++b)
        EXPECT_EQ(forest.conflict(a, b), !hw::conflicts(model, {placed(a), placed(b)}).empty());
    }
    Rng rng(7);
    for (int round = 0; round < 200; ++round) {
      std::vector<int> nodes;
      std::vector<hw::PlacedProfile> all;
      for (int tries = 0; tries < 100; ++tries) {
        const int v = static_cast<int>(rng.below(at(count)));
        if (std::ranges::any_of(nodes, [&](int one) { return forest.conflict(one, v); })) continue;
        nodes.push_back(v);
        all.push_back(placed(v));
      }
      EXPECT_TRUE(hw::conflicts(model, all).empty());
    }
  }
}

}  // namespace
}  // namespace partita::planners::batch
