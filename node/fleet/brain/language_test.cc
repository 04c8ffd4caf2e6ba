// Language models in a fleet: on several nodes, of which any one may be lost.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "fleet/brain/part_services.h"
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

// Nodes of 6 GPUs whose links are said: a group needs as many linked ones, and is on those.
TEST(LanguageModelsInAFleet, GroupsAreOfGpusThatAreLinked) {
  for (const int group : {2, 4})
    for (const int nvlink : {0, 1, 2, 3, 4, 6}) {
      TestFleet fleet(1, 6, language_ground_of_tests());
      const std::string name = group == 2 ? "pair" : "quad";
      for (NodeGpu& gpu : fleet.view.nodes.at("n0").gpus)
        if (nvlink > 0) gpu.nvlink = gpu.index / nvlink * nvlink;
      fleet.want({{name, 1}});
      fleet.settle();
      const bool linked = nvlink == 0 || nvlink >= group;
      EXPECT_EQ(fleet.carried(name) > 0, linked) << group << " of " << nvlink;
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

// A node of four in two domains, any of which may be out: as many groups of two as there are whole
// domains, and each in one of them.
TEST(LanguageModelsInAFleet, GroupsAreNotAcrossWhatIsLeftOfDomains) {
  for (const double rate : {3.0, 12.0, 50.0}) {
    FleetGround ground = language_ground_of_tests();
    ground.memory = std::make_shared<PlannerMemory>();  // of all: what is out counts, not how many
    for (unsigned out = 0; out < 16; ++out) {
      TestFleet fleet(1, 4, ground);
      fleet.want({{"pair", rate}});
      NodeRecord& node = fleet.view.nodes.begin()->second;
      for (NodeGpu& gpu : node.gpus) gpu.nvlink = gpu.index / 2 * 2;
      std::size_t whole = 0;
      for (unsigned d = 0; d < 2; ++d) whole += (out >> 2 * d & 3) == 0 ? 1 : 0;
      for (NodeGpu& gpu : node.gpus)
        if ((out >> gpu.index & 1U) != 0) gpu.unusable = "it is out";
      fleet.settle();
      std::map<int, int> on;  // by domain
      for (const plan::PlannedGpu& gpu : node.runs)
        if (!gpu.instances.empty()) ++on[gpu.index / 2];
      for (const auto& [domain, gpus] : on) {
        EXPECT_EQ(gpus, 2) << out << " at " << rate;
        EXPECT_EQ(out >> 2 * domain & 3U, 0U) << out;
      }
      EXPECT_LE(on.size(), whole) << out;
      EXPECT_EQ(on.empty(), whole == 0) << out;
      if (out != 0) continue;
      TestFleet linked(1, 4, language_ground_of_tests());  // all of them: groups of two fit as well
      linked.want({{"pair", rate}});
      linked.settle();
      EXPECT_NEAR(fleet.carried("pair"), linked.carried("pair"), 1e-6 * rate);
    }
  }
}

// A group runs on the GPUs around one that was out, and is back: what comes beside goes there only
// where the group moves together.
TEST(LanguageModelsInAFleet, AGroupAroundAGpuThatIsBack) {
  NodePlanner planner(language_ground_of_tests());
  NodeRecord node = node_of_tests("n0", 3);
  node.gpus[1].unusable = "it is out";
  const auto planned = [&](const Rates& rates, const plan::ServingPlan* before, Moves moves) {
    const auto services = parse_fleet_services("wanted", services_of_tests(rates))->services;
    return planner.plan({node, services, 0, before, moves});
  };
  const auto pair = planned({{"pair", 5}}, nullptr, Moves::any);
  ASSERT_TRUE(pair);
  node.runs = pair->gpus;
  node.gpus[1].unusable.clear();
  for (const double rate : {100.0, 400.0, 800.0}) {
    EXPECT_FALSE(planned({{"pair", 5}, {"s0", rate}}, &*pair, Moves::none)) << rate;
    const auto beside = planned({{"pair", 5}, {"s0", rate}}, &*pair, Moves::any);
    ASSERT_TRUE(beside) << to_string(beside.error());
    std::map<std::string, std::vector<int>> on;
    for (const plan::PlannedGpu& gpu : beside->gpus)
      on[gpu.instances.front().service].push_back(gpu.index);
    EXPECT_EQ(on["pair"].size(), 2U);
    EXPECT_EQ(on["pair"].back() - on["pair"].front(), 1);
    EXPECT_EQ(on["s0"].size(), 1U);
  }
}

// A group has a place beside what is lent exactly where two GPUs that follow one another are left.
TEST(LanguageModelsInAFleet, GroupsBesideWhatIsLent) {
  NodePlanner planner(language_ground_of_tests());
  for (unsigned lent = 1; lent < 16; ++lent)
    for (const char* profile : {"1g.10gb", "7g.80gb"}) {
      NodeRecord node = node_of_tests("n0", 4);
      const auto planned = [&](const Rates& rates, const plan::ServingPlan* before) {
        const auto services = parse_fleet_services("wanted", services_of_tests(rates))->services;
        return planner.plan({node, services, 0, before, Moves::any});
      };
      const auto pair = planned({{"pair", 5}}, nullptr);
      ASSERT_TRUE(pair);
      node.runs = pair->gpus;
      for (std::size_t gpu = 0; gpu < 4; ++gpu)
        if ((lent >> gpu & 1) != 0) node.gpus[gpu].lent = {{profile, 0}};
      const bool room = (lent & 3) == 0 || (lent & 6) == 0 || (lent & 12) == 0;
      const auto beside = planned({{"pair", 5}}, &*pair);
      EXPECT_EQ(beside.has_value(), room) << lent << " " << profile;
    }
}

// Of GPUs that are linked one has something lent on it: the group there moves to others that are.
TEST(LanguageModelsInAFleet, GroupsMoveOffWhatIsLent) {
  NodePlanner planner(language_ground_of_tests());
  for (const int each : {2, 3})
    for (const double rate : {50.0, 340.0, 1210.0}) {
      NodeRecord node = node_of_tests("n0", 6);
      for (NodeGpu& gpu : node.gpus) gpu.nvlink = gpu.index / each * each;
      const auto planned = [&](const Rates& rates, const plan::ServingPlan* before) {
        const auto services = parse_fleet_services("wanted", services_of_tests(rates))->services;
        return planner.plan({node, services, 0, before, Moves::any});
      };
      const auto before = planned({{"s0", 500}, {"pair", 5}, {"s2", 200}}, nullptr);
      ASSERT_TRUE(before);
      node.runs = before->gpus;
      node.gpus[1].lent = {{"1g.10gb", 6}};
      const auto beside = planned({{"pair", 11}, {"s0", rate}, {"s1", 30}}, &*before);
      ASSERT_TRUE(beside) << each << " " << rate << ": " << to_string(beside.error());
      std::vector<int> on;
      for (const plan::PlannedGpu& gpu : beside->gpus)
        if (gpu.instances.front().service == "pair") on.push_back(gpu.index);
      ASSERT_EQ(on.size() % 2, 0U);
      for (std::size_t i = 0; i < on.size(); i += 2) {
        EXPECT_EQ(on[i + 1], on[i] + 1) << each << " " << rate;
        EXPECT_EQ(on[i] / each, on[i + 1] / each) << each << " " << rate;
      }
      EXPECT_EQ(std::ranges::count(on, 1), 0);
    }
}

// A node has no other GPUs than those on which a group runs that is not wanted any more.
TEST(LanguageModelsInAFleet, GpusOfAGroupThatGoesAreForOthers) {
  NodePlanner planner(language_ground_of_tests());
  NodeRecord node = node_of_tests("n0");
  const auto planned = [&](const Rates& rates, const plan::ServingPlan* before) {
    const auto services = parse_fleet_services("wanted", services_of_tests(rates))->services;
    return planner.plan({node, services, 0, before, Moves::any});
  };
  node.runs = planned({{"pair", 5}}, nullptr)->gpus;
  ASSERT_EQ(node.runs.size(), 2U);
  const auto few = planned({{"lm", 6}, {"s0", 85}}, nullptr);  // it is not carried out yet
  ASSERT_TRUE(few);
  int used = 0;
  for (double rate = 10; rate < 500; rate += 10) {
    const auto more =
        planned({{"lm", 6}, {"s0", 170}, {"s1", rate}, {"s2", 57}, {"s3", 23}}, &*few);
    if (!more) continue;
    for (const plan::PlannedGpu& gpu : more->gpus) EXPECT_LT(gpu.index, 2) << rate;
    used = std::max(used, static_cast<int>(more->gpus.size()));
  }
  EXPECT_EQ(used, 2);
}

// What was found for an ask with other moves serves for this one, and changes no answer.
TEST(LanguageModelsInAFleet, AnswersDoNotHangOnWhatWasAskedBefore) {
  NodePlanner planner(language_ground_of_tests());
  NodeRecord node = node_of_tests("n0", 3);
  const auto services_at = [](const Rates& rates) {
    return parse_fleet_services("wanted", services_of_tests(rates))->services;
  };
  const auto first =
      planner.plan({node, services_at({{"lm", 6}, {"s0", 85}}), 0, nullptr, Moves::any});
  ASSERT_TRUE(first);
  node.runs = first->gpus;
  node.carries = {{"lm", 6}, {"s0", 85}};
  node.gpus[2].lent = {{"3g.40gb", 4}};
  std::set<std::tuple<bool, bool, bool>> found;
  for (double rate = 50; rate < 4000; rate *= 1.6) {
    const auto services = services_at({{"lm", 6}, {"s0", 85}, {"s1", rate}});
    std::vector<bool> has(3);
    for (const Moves moves : {Moves::in_turn, Moves::none, Moves::any, Moves::in_turn}) {
      const NodeAsk ask{node, services, 0, &*first, moves};
      const auto told = planner.plan(ask), anew = NodePlanner(language_ground_of_tests()).plan(ask);
      ASSERT_EQ(told.has_value(), anew.has_value()) << rate;
      if (told)
        EXPECT_EQ(*told, *anew) << rate;
      else
        EXPECT_EQ(to_string(told.error()), to_string(anew.error())) << rate;
      has[static_cast<std::size_t>(moves)] = told.has_value();
    }
    found.emplace(has[0], has[1], has[2]);
  }
  EXPECT_GE(found.size(), 2U);
}

}  // namespace
}  // namespace partita::fleet
