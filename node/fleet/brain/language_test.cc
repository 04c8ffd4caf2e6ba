// Language models in a fleet: on several nodes, of which any one may be lost.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "fleet/brain/testing/fleet_fixture.h"
#include "forms/serving_forms.h"
#include "verify/judge.h"

namespace partita::fleet {
namespace {

constexpr double kRate = 12;

// On 3g instances and whole GPUs, or on groups of so many alone.
FleetGround language_ground(int group) {
  FleetGround ground = ground_of_tests();
  auto& engines = ground.profiles.front().engines["lm"];
  for (const auto& [profile, gpcs, gpus] :
       {std::tuple{"3g.40gb", 3, 1}, {"", 7, 1}, {"", 7, 2}, {"", 7, 4}}) {
    if (group != gpus) continue;
    profile::TokenEngine engine{.name = {"an engine"}, .mig_profile = profile, .gpus = gpus};
    const double speed = gpcs * gpus;
    engine.spec.cost = {.step = 40 / speed, .sequence = 1 / speed, .prompt_token = 0.5 / speed};
    engine.spec.sequences = 32;
    engine.most_in = engine.most_out = 4096;
    engines.push_back(engine);
  }
  return ground;
}

std::string file_of(double rate) {
  return fmt::format(
      "services:\n  - {{name: chat, model: lm, kind: llm, rate_rps: {}, tokens: {{in: 200, out: "
      "50}}, slo: {{ttft_ms: 2000, tpot_ms: 60, percentile: 95}}}}\n",
      rate);
}

TEST(LanguageModelsInAFleet, KeepTheirPromiseWithoutAnyOneNode) {
  for (const bool groups : {false, true}) {
    const FleetGround ground = language_ground(groups ? 2 : 1);
    TestFleet fleet(4, 2, ground);
    fleet.view.wanted->services = file_of(kRate);
    fleet.view.wanted->survive = Survive::node;
    fleet.settle();
    ASSERT_GE(fleet.nodes_of("chat").size(), 2U) << groups;
    for (const auto& [name, part] : fleet.view.parts) {
      if (part.plan.services.empty()) continue;
      plan::ServingProblem problem;
      for (const plan::PlannedService& row : part.plan.services) problem.services.push_back(row);
      problem.fleet = ground.profiles;
      problem.fleet[0].count = static_cast<int>(fleet.view.nodes.at(name).gpus.size());
      const auto verdict = verify::judge(problem, part.plan);
      EXPECT_TRUE(verdict) << name << ": " << to_string(verdict.error().violations.front());
      for (const plan::PlannedGpu& gpu : part.plan.gpus)
        for (const plan::PlannedInstance& one : gpu.instances) EXPECT_EQ(one.group == 2, groups);
    }
    const auto before = fleet.view.nodes;
    for (const auto& [name, node] : before) {
      fleet.view.nodes.erase(name);
      EXPECT_GE(fleet.carried("chat"), kRate * (1 - 1e-6)) << "without " << name;
      fleet.view.nodes = before;
    }
    EXPECT_EQ(fleet.settle(), 0);
  }
}

// Nodes of 6 GPUs whose links are said: a group needs as many linked ones, and is on those.
TEST(LanguageModelsInAFleet, GroupsAreOfGpusThatAreLinked) {
  for (const int group : {2, 4})
    for (const int nvlink : {0, 1, 2, 3, 4, 6}) {
      TestFleet fleet(1, 6, language_ground(group));
      fleet.view.nodes.at("n0").nvlink = nvlink;
      fleet.view.wanted->services = file_of(1);
      fleet.settle();
      const bool linked = nvlink == 0 || nvlink >= group;
      EXPECT_EQ(fleet.carried("chat") > 0, linked) << group << " of " << nvlink;
      std::set<int> domains;
      int used = 0;
      for (const plan::PlannedGpu& gpu : fleet.view.nodes.at("n0").runs) {
        if (gpu.instances.empty()) continue;
        ++used;
        domains.insert(gpu.index / (nvlink == 0 ? 6 : nvlink));
      }
      EXPECT_EQ(used, linked ? group : 0);
      EXPECT_EQ(domains.size(), linked ? 1U : 0U) << group << " of " << nvlink;
    }
}

}  // namespace
}  // namespace partita::fleet
