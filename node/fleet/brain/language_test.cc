// Language models in a fleet: on several nodes, of which any one may be lost.
#include <gtest/gtest.h>

#include "fleet/brain/testing/fleet_fixture.h"
#include "forms/serving_forms.h"
#include "verify/judge.h"

namespace partita::fleet {
namespace {

constexpr double kRate = 12;

TEST(LanguageModelsInAFleet, KeepTheirPromiseWithoutAnyOneNode) {
  for (const bool groups : {false, true}) {
    const FleetGround& ground = language_ground_of_tests();
    const std::string name = groups ? "pair" : "lm";
    TestFleet fleet(4, 2, ground);
    fleet.want({{name, kRate}});
    fleet.view.wanted->survive = Survive::node;
    fleet.settle();
    ASSERT_GE(fleet.nodes_of(name).size(), 2U) << groups;
    for (const auto& [node, part] : fleet.view.parts) {
      if (part.plan.services.empty()) continue;
      plan::ServingProblem problem;
      for (const plan::PlannedService& row : part.plan.services) problem.services.push_back(row);
      problem.fleet = ground.profiles;
      problem.fleet[0].count = static_cast<int>(fleet.view.nodes.at(node).gpus.size());
      const auto verdict = verify::judge(problem, part.plan);
      EXPECT_TRUE(verdict) << node << ": " << to_string(verdict.error().violations.front());
      for (const plan::PlannedGpu& gpu : part.plan.gpus)
        for (const plan::PlannedInstance& one : gpu.instances) EXPECT_EQ(one.group == 2, groups);
    }
    const auto before = fleet.view.nodes;
    for (const auto& [lost, node] : before) {
      fleet.view.nodes.erase(lost);
      EXPECT_GE(fleet.carried(name), kRate * (1 - 1e-6)) << "without " << lost;
      fleet.view.nodes = before;
    }
    EXPECT_EQ(fleet.settle(), 0);
  }
}

}  // namespace
}  // namespace partita::fleet
