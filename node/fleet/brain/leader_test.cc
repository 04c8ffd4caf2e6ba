#include "fleet/brain/leader.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "fleet/brain/documents.h"
#include "fleet/brain/part_services.h"
#include "fleet/brain/status.h"
#include "fleet/brain/testing/fleet_fixture.h"
#include "forms/serving_forms.h"
#include "plan/changes.h"
#include "verify/judge.h"

namespace partita::fleet {
namespace {

using Names = std::vector<std::string>;

// The judge's word on a part, by a problem made here.
void expect_judged(const TestFleet& fleet, const Part& part) {
  plan::ServingProblem problem;
  for (const plan::PlannedService& row : part.plan.services) problem.services.push_back(row);
  problem.fleet = ground_of_tests().profiles;
  problem.fleet[0].count = static_cast<int>(fleet.view.nodes.at(part.node).gpus.size());
  EXPECT_TRUE(verify::judge(problem, part.plan).has_value()) << write(part);
}

TEST(Leader, PlansWhatIsWantedAndThenIsQuiet) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}, {"b", 900}, {"c", 2500}});
  fleet.settle();
  for (const auto& [service, rate] : Rates{{"a", 300}, {"b", 900}, {"c", 2500}})
    EXPECT_GE(fleet.carried(service), rate * (1 - 1e-9));
  for (const auto& [name, part] : fleet.view.parts) expect_judged(fleet, part);
  EXPECT_EQ(fleet.settle(), 0);
}

TEST(Leader, ServiceLargerThanANodeIsOnSeveral) {
  TestFleet fleet(4, 1);
  fleet.want({{"big", 2400}});
  fleet.settle();
  EXPECT_GE(fleet.carried("big"), 2400 * (1 - 1e-9));
  EXPECT_GE(fleet.nodes_of("big").size(), 2u);
}

// A node's part of a pipeline has its steps for that part, and its agent reads them from the part.
TEST(Leader, PipelinesGoWithTheirSteps) {
  TestFleet fleet(4);
  fleet.view.wanted->services = services_of_tests({{"a", 300}, {"way", 900}});
  fleet.settle();
  EXPECT_GE(fleet.carried("way"), 900 * (1 - 1e-9));
  EXPECT_EQ(fleet.carried("m"), 0);  // nobody asks for it alone
  const auto check = [&] {
    for (const auto& [name, part] : fleet.view.parts) {
      if (part.services.empty() || !fleet.view.nodes.contains(name)) continue;
      expect_judged(fleet, part);
      const auto read = forms::parse_services(name, part.services);
      ASSERT_TRUE(read) << to_string(read.error());
      ASSERT_EQ(read->size(), part.plan.services.size());
      for (const plan::PlannedService& row : part.plan.services) {
        const auto own = std::ranges::find(*read, row.name, &plan::Terms::name);
        ASSERT_NE(own, read->end()) << part.services;
        EXPECT_NEAR(own->rate.value, row.rate.value, 1e-6 * row.rate.value);
        if (row.member) {
          EXPECT_NEAR(row.rate.value, rates_of(part).at("way"), 1e-6);
        }
      }
    }
  };
  check();
  EXPECT_EQ(fleet.settle(), 0);
  fleet.view.nodes.erase(fleet.nodes_of("way")[0]);
  fleet.settle();
  EXPECT_GE(fleet.carried("way"), 900 * (1 - 1e-9));
  check();
}

TEST(Leader, RefusesWhatNodesWouldTearApart) {
  const auto why = [](const std::string& text) {
    const auto read = parse_fleet_services("f", text);
    return read ? "" : to_string(read.error());
  };
  const std::string way = services_of_tests({{"a", 300}, {"way", 900}});
  EXPECT_EQ(why(way), "");
  std::string shared = services_of_tests({{"m", 300}, {"way", 900}});
  EXPECT_EQ(why(shared),
            "f:3: pipeline 'way': its step 'm' is a service with clients of its own, which a fleet "
            "may put on another node; a step is to be a model here, and no service of that name");
  EXPECT_EQ(why("services:\n  - {name: b, model: m, rate_rps: 9, slo_ms: 150, lengths: [3, 9], "
                "buckets: [4, 16]}\n"),
            "f:2: 'b~4' is a bucket of a service, which a fleet does not keep: write a service for "
            "each length");
}

TEST(Leader, SaysWhatHasNoRoom) {
  TestFleet fleet(2, 1);
  fleet.want({{"big", 90000}});
  const Decision decision = fleet.decide();
  ASSERT_EQ(decision.services.size(), 1u);
  EXPECT_LT(decision.services[0].planned_rps, 90000);
  EXPECT_NE(decision.services[0].why, "");
}

TEST(Leader, ServicesOfALostNodeGoToOthersAndNoOtherMoves) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}, {"b", 300}, {"c", 300}, {"d", 300}});
  fleet.settle();
  const Names was = fleet.nodes_of("a");
  const auto before = fleet.view.nodes;
  fleet.view.nodes.erase(was[0]);
  fleet.settle();
  for (const char* service : {"a", "b", "c", "d"}) EXPECT_GE(fleet.carried(service), 299.9);
  for (const auto& [name, node] : fleet.view.nodes)  // what was placed stays
    for (const Carried& one : before.at(name).carries) {
      const Rates now = rates_of(node.carries);
      EXPECT_TRUE(now.contains(one.service)) << one.service << " left " << name;
    }
  // It comes back with all it had: by a plan it is spared again, whoever keeps it.
  fleet.view.nodes[was[0]] = before.at(was[0]);
  fleet.settle();
  double all = 0;
  for (const char* service : {"a", "b", "c", "d"}) all += fleet.carried(service);
  EXPECT_LE(all, 1200 * 1.26);
}

// What is on a node of services that it carries before and after, instance by instance.
std::vector<std::string> instances_of(const NodeRecord& node, const Rates& of) {
  std::vector<std::string> all;
  for (const plan::PlannedGpu& gpu : node.runs)
    for (const plan::PlannedInstance& one : gpu.instances)
      if (of.contains(one.service))
        all.push_back(fmt::format("{} {} at {} of {}, {} x {}", one.service, one.profile, one.start,
                                  gpu.index, one.processes, one.batch));
  std::ranges::sort(all);
  return all;
}

// Nodes of one GPU are lost, and services need more, while there is room: what serves on the other
// nodes serves on, instance by instance.
TEST(Leader, WhatIsMissingIsMadeBesideWhatServes) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(25)); ++seed) {
    Rng rng(seed);
    TestFleet fleet(4, 1);
    Rates rates{{"a", 150}, {"b", 150}, {"c", 150}, {"d", 150}};
    fleet.want(rates);
    fleet.settle();
    std::map<std::string, NodeRecord> before;
    const auto settle = [&](const std::string& what) {
      before = fleet.view.nodes;
      fleet.settle([&] {
        for (const auto& [name, node] : fleet.view.nodes) {
          const Rates carries = rates_of(node.carries);
          const auto had = instances_of(before.at(name), carries),
                     has = instances_of(node, carries);
          EXPECT_TRUE(std::ranges::includes(has, had))
              << "seed " << seed << ", " << what << ", " << name << ": "
              << ::testing::PrintToString(had) << " became " << ::testing::PrintToString(has);
        }
        before = fleet.view.nodes;
      });
      for (const auto& [service, rate] : rates)
        EXPECT_GE(fleet.carried(service), rate * (1 - 1e-6)) << "seed " << seed << ", " << what;
    };
    for (int turn = 0; turn < 6; ++turn) {
      auto grows = rates.begin();
      std::advance(grows, rng.below(rates.size()));
      grows->second += 100 * rng.uniform();
      fleet.want(rates);
      settle(grows->first + " grows");
      const auto lost = fleet.view.nodes.extract(fmt::format("n{}", rng.below(4)));
      settle(lost.key() + " is lost");
      fleet.view.nodes.insert({lost.key(), lost.mapped()});
      fleet.settle();
    }
  }
}

// An instance that is larger than its service needs by now makes room for what has none.
TEST(Leader, WhatIsTooLargeByNowMakesRoom) {
  const auto services = [](double slo_ms) {
    return fmt::format("services:\n  - {{name: a, model: m, rate_rps: 1, slo_ms: {}}}\n", slo_ms);
  };
  TestFleet fleet(1, 1);
  fleet.view.wanted->services = services(6);  // on a whole GPU alone
  fleet.settle();
  ASSERT_EQ(fleet.view.nodes.at("n0").runs.at(0).instances.at(0).profile, "7g.80gb");
  fleet.view.wanted->services =
      services(150) + "  - {name: b, model: m, rate_rps: 600, slo_ms: 150}\n";
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 0.999);
  EXPECT_GE(fleet.carried("b"), 599.9);
}

// Two nodes have a service, and one was told to give it up. Before it does it is to carry others:
// the one stays where it is, beside them.
TEST(Leader, WhatANodeIsToGiveUpStaysWhereItIs) {
  int beside = 0;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(60)); ++seed) {
    Rng rng(seed);
    TestFleet fleet(2, 1);
    Rates rates{{"a", 150}};
    fleet.want(rates);
    fleet.settle();
    rates["a"] += 150 + 100 * rng.uniform();
    fleet.want(rates);
    fleet.settle();
    const std::string node = fleet.nodes_of("a")[0];
    const auto away = fleet.view.nodes.extract(node);
    fleet.settle();
    fleet.view.nodes.insert({node, away.mapped()});
    fleet.decide();
    for (const char* more : {"b", "c", "d"}) rates[more] = 50 + 200 * rng.uniform();
    fleet.want(rates);
    fleet.decide();
    for (const char* name : {"n0", "n1"}) {
      const auto had = instances_of(fleet.view.nodes.at(name), {{"a", 1}});
      fleet.carry_out(name);
      const NodeRecord& is = fleet.view.nodes.at(name);
      if (!rates_of(is.carries).contains("a")) continue;
      const auto has = instances_of(is, {{"a", 1}});
      EXPECT_TRUE(std::ranges::includes(has, had))
          << "seed " << seed << ", " << name << ": " << ::testing::PrintToString(had) << " became "
          << ::testing::PrintToString(has);
      beside += rates_of(is.carries).size() > 1;
    }
  }
  EXPECT_GE(beside, 10);
}

TEST(Leader, DrainedNodeEndsEmptyAndNothingIsMissingMeanwhile) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}, {"b", 500}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a")[0];
  fleet.view.wanted->drained = {node};
  fleet.settle([&] {
    EXPECT_GE(fleet.carried("a"), 299.9);
    EXPECT_GE(fleet.carried("b"), 499.9);
  });
  EXPECT_TRUE(fleet.view.nodes.at(node).carries.empty());
  EXPECT_EQ(fleet.settle(), 0);
}

TEST(Leader, LessWaitsForMore) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a")[0], other = node == "n0" ? "n1" : "n0";
  fleet.view.wanted->drained = {node};
  fleet.decide();
  const Part& less = fleet.view.parts.at(node);
  ASSERT_EQ(less.waits_for.size(), 1u);
  EXPECT_EQ(less.waits_for[0].node, other);
  EXPECT_FALSE(fleet.carry_out(node));
  EXPECT_TRUE(fleet.carry_out(other));
  EXPECT_TRUE(fleet.carry_out(node));
}

// A part with as much as a node has came in place of one with less, which it may have taken.
TEST(Leader, LessWaitsForWhoMayHaveLessMeanwhile) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.settle();
  const std::string has = fleet.nodes_of("a").at(0), other = has == "n0" ? "n1" : "n0";
  Part part = fleet.view.parts.at(has);
  part.node = other;
  become(fleet.view.nodes.at(other), part);
  part.revision = 50;
  fleet.view.parts[other] = part;
  const Decision decision = fleet.decide();
  ASSERT_EQ(decision.parts.size(), 1u);
  EXPECT_EQ(decision.parts[0].node, has);
  EXPECT_EQ(decision.parts[0].waits_for, (std::vector<Wait>{{other, 50}}));
}

// Who is waited for loses its GPUs and has a newer revision than that, with nothing of it.
TEST(Leader, LessWaitsForWhatOthersCarryAndNotForARevisionAlone) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a")[0], other = node == "n0" ? "n1" : "n0";
  fleet.view.wanted->drained = {node};
  fleet.decide();
  const Part less = fleet.view.parts.at(node);
  EXPECT_NEAR(rates_of(less.elsewhere)["a"], 300, 0.01);
  for (NodeGpu& gpu : fleet.view.nodes.at(other).gpus) gpu.unusable = "it is lost";
  const Decision lost = fleet.decide();
  EXPECT_EQ(lost.parts.size(), 2u) << "the other as it can be, and this one as it was";
  const Part kept = std::exchange(fleet.view.parts[node], less);  // a leader died between them
  EXPECT_TRUE(fleet.carry_out(other));
  EXPECT_GT(fleet.view.nodes.at(other).ready, less.waits_for.at(0).revision);
  EXPECT_FALSE(fleet.carry_out(node));
  EXPECT_EQ(fleet.decide().parts.size(), 1u) << "nobody waits for ever";
  EXPECT_EQ(rates_of(fleet.view.parts.at(node)), rates_of(kept));
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 299.9); });
  for (NodeGpu& gpu : fleet.view.nodes.at(other).gpus) gpu.unusable.clear();
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 299.9); });
  EXPECT_TRUE(fleet.view.nodes.at(node).carries.empty());
}

TEST(Leader, WhoWaitsForALostNodeKeepsWhatItHas) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a")[0];
  fleet.view.wanted->drained = {node};
  fleet.decide();
  const std::string waited = fleet.view.parts.at(node).waits_for.at(0).node;
  fleet.view.nodes.erase(waited);
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 299.9); });
  EXPECT_GE(fleet.carried("a"), 299.9);
  EXPECT_TRUE(fleet.view.nodes.at(node).carries.empty());
}

TEST(Leader, SurvivesAnyNode) {
  TestFleet fleet(4);
  fleet.view.wanted->survive = Survive::node;
  fleet.want({{"a", 300}, {"b", 1500}});
  fleet.settle();
  for (const auto& [lost, node] : fleet.view.nodes) {
    const Rates gone = rates_of(node.carries);
    for (const auto& [service, rate] : Rates{{"a", 300}, {"b", 1500}}) {
      const auto had = gone.find(service);
      EXPECT_GE(fleet.carried(service) - (had == gone.end() ? 0 : had->second), rate * (1 - 1e-6))
          << service << " without " << lost;
    }
  }
  EXPECT_EQ(fleet.settle(), 0);
}

TEST(Leader, SurvivesAnyRack) {
  TestFleet fleet(6);
  for (auto& [name, node] : fleet.view.nodes)
    node.rack = name < "n2" ? "r0" : name < "n4" ? "r1" : "r2";
  fleet.view.wanted->survive = Survive::rack;
  fleet.want({{"a", 300}, {"b", 1500}});
  fleet.settle();
  for (const auto& [service, rate] : Rates{{"a", 300}, {"b", 1500}}) {
    std::map<std::string, double> racks;
    for (const auto& [name, node] : fleet.view.nodes)
      for (const Carried& one : node.carries)
        if (one.service == service) racks[node.rack] += one.rate_rps;
    for (const auto& [rack, there] : racks)
      EXPECT_GE(fleet.carried(service) - there, rate * (1 - 1e-6)) << service << rack;
  }
}

// n0 and n1 hang on A, n2 and n3 on B (one behind a PDU), n4 on both, n5 says that it hangs on C.
TEST(Leader, SurvivesAnyFeed) {
  TestFleet fleet(6);
  fleet.view.power =
      FleetPower{.tree = {{"A", {}, 9000, {}}, {"B", {}, 9000, {}}, {"B1", "B", 5000, {}}},
                 .nodes = {{"n0", {"A"}, 0, 0, 1000},
                           {"n1", {"A"}, 0, 0, 1000},
                           {"n2", {"B"}, 0, 0, 1000},
                           {"n3", {"B1"}, 0, 0, 1000},
                           {"n4", {"A", "B1"}, 0, 0, 1000}}};
  fleet.view.nodes.at("n0").feed = "C";  // the tree knows better
  fleet.view.nodes.at("n5").feed = "C";
  const std::map<std::string, std::set<std::string>> lost = {
      {"A", {"n0", "n1"}}, {"B", {"n2", "n3"}}, {"C", {"n5"}}};
  fleet.want({{"a", 300}, {"b", 1500}, {"c", 40}});
  for (const Survive survive : {Survive::node, Survive::feed}) {
    fleet.view.wanted->survive = survive;
    fleet.settle();
    bool all = true;
    for (const auto& [service, rate] : Rates{{"a", 300}, {"b", 1500}, {"c", 40}})
      for (const auto& [feed, nodes] : lost) {
        double left = 0;
        for (const auto& [name, node] : fleet.view.nodes)
          for (const Carried& one : node.carries)
            if (one.service == service && !nodes.contains(name)) left += one.rate_rps;
        const bool enough = left >= rate * (1 - 1e-6);
        all = all && enough;
        EXPECT_TRUE(enough || survive == Survive::node) << service << " without " << feed;
      }
    EXPECT_EQ(all, survive == Survive::feed) << "by nodes alone it would be right by chance";
  }
}

// Who draws all that it may gets nothing while others have room, and something where they have not.
TEST(Leader, NodesWithoutPowerComeLast) {
  for (const double draw : {500.0, 940.0, 960.0}) {
    TestFleet fleet(3);
    fleet.view.power =
        FleetPower{.tree = {{"A", {}, 3000, {}}}, .nodes = {{"n0", {"A"}, 1000, 1000, 4000}}};
    fleet.view.budgets = FleetBudgets{.revision = 1, .nodes = {{"n0", 2000, 2000, 2000, 2000}}};
    fleet.view.budgets->nodes[0].limited_by = "A";
    fleet.view.draws["n0"] = draw;
    const double node = 14 * 130;  // 130 req/s of a slice
    fleet.want({{"a", 0.6 * node}, {"b", 0.6 * node}});
    fleet.settle();
    EXPECT_EQ(fleet.view.nodes.at("n0").carries.empty(), draw > 950) << draw;
    for (const char* of : {"", "n0", "n1", "a"}) {  // who asks hears why
      const auto said = explain(fleet.view, of).value_or("");
      const bool says = said.find(
                            "n0 gets more only where no other node has room: its GPUs draw "
                            "960 W of the 1000 W that A leaves them") != std::string::npos;
      EXPECT_EQ(says, draw > 950 && of != std::string("n1")) << of << ": " << said;
    }
    fleet.want({{"a", 0.8 * node}, {"b", 0.8 * node}, {"c", 0.6 * node}});
    fleet.settle();
    EXPECT_FALSE(fleet.view.nodes.at("n0").carries.empty());
    EXPECT_NEAR(fleet.carried("c"), 0.6 * node, 1e-3 * node);
  }
}

// What a node draws goes over the mark and back at every look: where services stand they stay, and
// more draw never takes the mark away.
TEST(Leader, AMarkForPowerMovesNothingThatStands) {
  TestFleet fleet(3);
  fleet.view.power = FleetPower{.tree = {{"A", {}, 6000, {}}}};
  fleet.view.budgets = FleetBudgets{.revision = 1};
  for (const auto& [name, node] : fleet.view.nodes) {
    fleet.view.power->nodes.push_back({name, {"A"}, 1000, 1000, 4000});
    fleet.view.budgets->nodes.push_back({name, 2000, 2000, 2000, 2000, 0, "A"});
  }
  const double node = 14 * 130;
  fleet.want({{"a", 0.9 * node}, {"b", 0.7 * node}, {"c", 0.3 * node}});
  fleet.settle();
  Rng rng(36);
  int marked = 0;
  for (int look = 0; look < 40; ++look) {
    for (const auto& [name, record] : fleet.view.nodes) {
      double& draw = fleet.view.draws[name];
      draw = 900 + 100 * rng.uniform();
      const bool is = !why_last(fleet.view, name).empty();
      draw += 20;
      EXPECT_LE(is, !why_last(fleet.view, name).empty()) << draw;
      marked += is;
    }
    EXPECT_TRUE(fleet.decide().parts.empty()) << look;
  }
  EXPECT_GT(marked, 20);
  EXPECT_LT(marked, 100);
}

// Two of three nodes are lost: what is left has room for all rates, and for no margin of any.
TEST(Leader, RatesAreKeptWhereMarginsCannotBe) {
  TestFleet fleet(3, 1);
  const Rates rates{{"a", 300}, {"b", 240}};
  fleet.view.wanted->survive = Survive::node;
  fleet.want(rates);
  fleet.settle();
  for (const auto& [name, rate] : rates)
    for (const auto& [node, record] : fleet.view.nodes)
      EXPECT_GE(fleet.carried(name, node), rate * (1 - 1e-6)) << node;
  while (fleet.view.nodes.size() > 1) {
    fleet.view.nodes.erase(std::prev(fleet.view.nodes.end()));
    fleet.settle();
    for (const auto& [name, rate] : rates)
      EXPECT_GE(fleet.carried(name), rate * (1 - 1e-6)) << name;
  }
  const Decision decision = fleet.decide();
  EXPECT_TRUE(decision.parts.empty());
  for (const ServiceOutlook& one : decision.services) {
    EXPECT_TRUE(one.margin_only);
    EXPECT_NE(one.why, "");
  }
  for (const auto& [name, part] : fleet.view.parts)
    if (fleet.view.nodes.contains(name)) expect_judged(fleet, part);
}

// Every part that has the service says its priority, in its services as in its plan.
void expect_told(const TestFleet& fleet, const std::string& service, int priority) {
  int told = 0;
  for (const auto& [name, part] : fleet.view.parts) {
    if (part.services.empty()) continue;
    const auto file = forms::parse_services_file(name, part.services);
    ASSERT_TRUE(file) << to_string(file.error());
    for (const plan::Service& one : file->services) {
      EXPECT_EQ(one.priority, one.name == service ? priority : 0);
      told += one.name == service ? 1 : 0;
    }
    for (const plan::PlannedService& row : part.plan.services)
      EXPECT_EQ(row.priority, row.name == service ? priority : 0);
  }
  EXPECT_GT(told, 0);
}

// Half of the room is gone: whoever is of the highest priority has all of its rate, whichever it
// is, and what is of less priority has what is left.
TEST(Leader, WhatIsOfHigherPriorityIsKept) {
  const Rates rates{{"a", 500}, {"b", 400}, {"c", 450}, {"d", 350}};
  for (const char* first : {"a", "b", "c", "d"}) {
    TestFleet fleet(2, 1);
    fleet.want(rates);
    fleet.settle();
    for (const auto& [name, rate] : rates) EXPECT_GE(fleet.carried(name), rate * (1 - 1e-6));
    const auto runs = [&] {
      std::map<std::string, std::vector<plan::PlannedGpu>> all;
      for (const auto& [name, node] : fleet.view.nodes) all[name] = node.runs;
      return all;
    };
    const auto before = runs();
    fleet.view.wanted->priorities[first] = 1;
    EXPECT_LE(fleet.settle(), 2) << "each node is told once";
    EXPECT_EQ(runs(), before) << "there is room for all";
    EXPECT_EQ(fleet.settle(), 0);
    const Names of = fleet.nodes_of(first);
    expect_told(fleet, first, 1);
    fleet.view.nodes.erase(of.front());
    const Decision decision = fleet.decide();
    for (const bool urgent : decision.urgent) EXPECT_TRUE(urgent);
    fleet.settle();
    EXPECT_GE(fleet.carried(first), rates.at(first) * (1 - 1e-6)) << first;
    EXPECT_EQ(fleet.settle(), 0);
    const auto left = fleet.view.nodes.begin();
    expect_judged(fleet, fleet.view.parts.at(left->first));
    EXPECT_GE(left->second.carries.size(), 2u) << first;
  }
}

// A service that comes takes the room of margins, those of its own priority too; not their rates.
TEST(Leader, MarginsMakeRoomForRates) {
  TestFleet fleet(2, 1);
  fleet.view.wanted->survive = Survive::node;
  fleet.want({{"a", 700}});
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 1400 * (1 - 1e-6));
  fleet.want({{"a", 700}, {"b", 600}});
  const Decision decision = fleet.decide();
  for (const bool urgent : decision.urgent) EXPECT_FALSE(urgent) << "nothing was lost";
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 700 * (1 - 1e-6));
  EXPECT_GE(fleet.carried("b"), 600 * (1 - 1e-6));
  EXPECT_EQ(fleet.settle(), 0);
}

TEST(Leader, LostGpuIsPlannedAround) {
  TestFleet fleet(2);
  fleet.want({{"a", 900}, {"b", 900}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a")[0];
  NodeRecord& record = fleet.view.nodes.at(node);
  const int used = fleet.view.parts.at(node).plan.gpus.front().index;
  for (NodeGpu& gpu : record.gpus)
    if (gpu.index == used) gpu.unusable = "it is lost";
  fleet.settle();
  for (const plan::PlannedGpu& gpu : fleet.view.parts.at(node).plan.gpus)
    EXPECT_NE(gpu.index, used);
  EXPECT_GE(fleet.carried("a"), 899.9);
  EXPECT_GE(fleet.carried("b"), 899.9);
}

// No person is waited for: what a GPU or a node in trouble had goes elsewhere at once.
TEST(Leader, WhatMakesUpForALossIsUrgentAndNothingElseIs) {
  const auto urgent = [](const Decision& decision) {
    return std::ranges::count(decision.urgent, true);
  };
  TestFleet fleet(3, 1);
  fleet.want({{"a", 300}});
  EXPECT_EQ(urgent(fleet.decide()), 0);
  fleet.settle();
  NodeRecord& record = fleet.view.nodes.at(fleet.nodes_of("a")[0]);
  const FleetView before = fleet.view;
  record.gpus[0].unusable = "it is lost";
  const Decision lost = fleet.decide();
  EXPECT_EQ(lost.parts.size(), 2u);
  EXPECT_EQ(urgent(lost), 2);
  const std::string node = record.node;
  fleet.view = before;
  fleet.view.nodes.at(node).trouble = "an instance cannot be made";
  fleet.view.nodes.at(node).carries.clear();
  EXPECT_EQ(urgent(fleet.decide()), 1);

  // A person is asked before a drained node becomes empty, not where its GPUs are lost.
  fleet.view = before;
  fleet.view.wanted->drained = {node};
  EXPECT_EQ(urgent(Leader(ground_of_tests()).decide(fleet.view, "n1").value()), 0);
  fleet.view.nodes.at(node).gpus[0].unusable = "it is lost";
  EXPECT_EQ(urgent(Leader(ground_of_tests()).decide(fleet.view, "n1").value()), 2);
}

// Nothing is lost where somebody wants other terms: a person who is asked sees them first.
TEST(Leader, OtherTermsAreNotUrgentAndAnotherDecision) {
  TestFleet fleet(2, 1);
  fleet.want({{"a", 700}});
  fleet.settle();
  const std::string was = fleet.view.wanted->services;
  const auto with_slo = [&](const char* ms) {
    std::string& text = fleet.view.wanted->services;
    text = was;
    text.replace(text.find("slo_ms: 150"), 11, fmt::format("slo_ms: {}", ms));
    return Leader(ground_of_tests()).decide(fleet.view, "n1").value();
  };
  const Decision strict = with_slo("20"), milder = with_slo("140"), mildest = with_slo("149");
  for (const Decision& one : {strict, milder, mildest}) {
    EXPECT_FALSE(one.parts.empty());
    EXPECT_EQ(std::ranges::count(one.urgent, true), 0) << one.changes.front();
  }
  EXPECT_EQ(rates_of(milder.parts.at(0)), rates_of(mildest.parts.at(0)));
  EXPECT_NE(milder.digest, mildest.digest);
  // With a GPU lost beside it nobody is asked.
  fleet.view.nodes.at(fleet.nodes_of("a")[0]).gpus[0].unusable = "it is lost";
  EXPECT_EQ(std::ranges::count(with_slo("140").urgent, false), 0);
}

// A yes is good once, though the same is decided again later.
TEST(Leader, TheSameDecisionLaterHasAnotherDigest) {
  TestFleet fleet(2, 1);
  fleet.want({{"a", 300}});
  fleet.settle();
  std::set<std::string> digests;
  const auto drained = [&](const std::string& node) {
    fleet.view.wanted->drained = {node};
    const Decision decision = fleet.decide();
    EXPECT_EQ(decision.parts.size(), 2u);
    EXPECT_TRUE(digests.insert(decision.digest).second);
    fleet.settle();
  };
  const std::string first = fleet.nodes_of("a")[0], second = first == "n0" ? "n1" : "n0";
  for (const std::string& node : {first, second, first, second}) drained(node);
}

// Where a node is to carry again what it has lost, its rates are as they were.
TEST(Leader, WhatMakesUpForALossOnItsOwnNodeIsUrgent) {
  TestFleet fleet(1, 1);
  fleet.want({{"a", 300}});
  fleet.settle();
  fleet.view.nodes.begin()->second.carries.clear();
  const Decision again = fleet.decide();
  ASSERT_EQ(again.parts.size(), 1u);
  EXPECT_TRUE(again.urgent[0]);
}

// What was given up for want of room is lost until it has its rate, whoever leads then.
TEST(Leader, WhatWasGivenUpComesBackAtOnce) {
  TestFleet fleet(2, 1);
  fleet.want({{"a", 700}, {"b", 700}});
  fleet.settle();
  NodeGpu& gpu = fleet.view.nodes.at(fleet.nodes_of("b")[0]).gpus[0];
  gpu.unusable = "it is lost";
  fleet.settle();
  ASSERT_LT(fleet.carried("b"), 699);
  gpu.unusable.clear();
  for (const auto& [name, part] : fleet.view.parts) EXPECT_EQ(*parse_part("k", write(part)), part);
  const Decision back = Leader(ground_of_tests()).decide(fleet.view, "n1").value();
  EXPECT_EQ(std::ranges::count(back.urgent, true), 1);
  fleet.settle();
  EXPECT_GE(fleet.carried("b"), 699.9);
  for (const auto& [name, part] : fleet.view.parts) EXPECT_TRUE(part.gave_up.empty()) << name;
}

TEST(Leader, NodeThatCannotCarryOutItsPartIsNotCountedOn) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.decide();
  const auto [node, part] = *fleet.view.parts.begin();
  fleet.view.nodes.at(node).taken = part.revision;
  fleet.view.nodes.at(node).trouble = "MIG cannot be turned on";
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 299.9);
  EXPECT_NE(fleet.nodes_of("a"), Names{node});
}

// It says nothing of what keeps it; who measures how long that takes is the fleet's agent.
TEST(Leader, NodeThatIsOverdueIsNotCountedOn) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.decide();
  const std::string node = fleet.view.parts.begin()->first;
  fleet.view.nodes.at(node).taken = fleet.view.parts.at(node).revision;
  EXPECT_TRUE(fleet.decide().parts.empty());
  fleet.view.overdue = {node};
  const Decision elsewhere = fleet.decide();
  EXPECT_EQ(std::ranges::count(elsewhere.urgent, true), 1);
  fleet.settle();
  EXPECT_GE(fleet.carried("a", node), 299.9);
}

TEST(Leader, MoreIsPlannedWhenMoreArrives) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  fleet.settle();
  fleet.view.rates["n0"] = {{"a", 400}};
  fleet.view.rates["n1"] = {{"a", 100}};
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 299.9); });
  EXPECT_GE(fleet.carried("a"), 500 * 1.15 * (1 - 1e-9));
  fleet.view.lost_rates = std::exchange(fleet.view.rates, {});
  EXPECT_EQ(fleet.settle(), 0);  // what arrived at nodes that are lost is asked for still
  fleet.view.lost_rates.clear();
  fleet.settle([&] { EXPECT_GE(fleet.carried("a"), 299.9); });
  EXPECT_LE(fleet.carried("a"), 300 * 1.26);
}

// While a service moves, what was asked for in vain and what arrives again are the same requests.
TEST(Leader, WhatNobodyCarriesIsAskedFor) {
  TestFleet fleet(2);
  fleet.want({{"a", 100}, {"tight", 100}});
  const auto need = [&](const char* service) {
    for (const ServiceOutlook& one : fleet.decide().services)
      if (one.name == service) return one.need_rps;
    return 0.0;
  };
  plan::Service file;
  file.rate = Rps{100};
  EXPECT_EQ(need("tight"), 100);
  fleet.view.uncarried = {{"n0", {{"tight", 120}, {"a", 90}}}, {"n1", {{"tight", 60}, {"a", 90}}}};
  EXPECT_EQ(need("tight"), need_of(file, 180));
  EXPECT_EQ(need("a"), need_of(file, 180));
  fleet.view.rates["n1"] = {{"a", 200}};
  EXPECT_EQ(need("a"), need_of(file, 200));
  fleet.view.uncarried["n0"]["tight"] = 1e15;  // whatever a node says
  EXPECT_EQ(need("tight"), need_of(file, 400 / 1.15));
}

// At a store that lost its data somebody then drains a node: nodes go on with what they have.
TEST(Leader, WhereNobodyHasSaidWhatIsWantedNothingGoes) {
  TestFleet fleet(3);
  fleet.want({{"a", 300}, {"b", 60}});
  fleet.settle();
  fleet.view.parts.clear();
  fleet.view.wanted = Wanted{.services = {}, .drained = {"n0"}};
  EXPECT_FALSE(says_what_is_wanted(fleet.view));
  EXPECT_TRUE(fleet.decide().parts.empty());
  EXPECT_GE(fleet.carried("a"), 300);
  fleet.want({{"a", 300}, {"b", 60}});
  fleet.settle();
  EXPECT_GE(fleet.carried("a", "n0"), 300 * (1 - 1e-6));
  EXPECT_EQ(fleet.carried("a") - fleet.carried("a", "n0"), 0);
}

TEST(Leader, ServiceThatIsNotWantedGoesAndOthersStay) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}, {"b", 300}});
  fleet.settle();
  fleet.want({{"b", 300}});
  fleet.settle([&] { EXPECT_GE(fleet.carried("b"), 299.9); });
  EXPECT_EQ(fleet.carried("a"), 0);
}

TEST(Leader, DecidesTheSameForTheSameView) {
  TestFleet one(4), other(4);
  for (TestFleet* fleet : {&one, &other}) fleet->want({{"a", 300}, {"b", 2500}, {"c", 40}});
  const Decision first = one.decide(), second = other.decide();
  EXPECT_EQ(first.parts, second.parts);
  EXPECT_EQ(first.digest, second.digest);
}

// What a node is told as a file means what its plan is for.
TEST(Leader, PartsSayTheirServicesAsAFile) {
  TestFleet fleet(3, 4);
  fleet.view.wanted->services =
      "survive: gpu\nservices:\n"
      "  - {name: a, model: m, rate_rps: 1500, slo_ms: 150, percentile: 95, min_replicas: 2,\n"
      "     anti_affinity: [b], headroom: 0.1}\n"
      "  - {name: b, model: m, rate_rps: 30, slo_ms: 50}\n";
  for (const ServiceOutlook& one : fleet.decide().services) EXPECT_EQ(one.why, "") << one.name;
  fleet.settle();
  int pieces = 0;
  for (const auto& [node, part] : fleet.view.parts) {
    if (part.plan.services.empty()) continue;
    const auto file = forms::parse_services_file("part", part.services);
    ASSERT_TRUE(file.has_value()) << to_string(file.error()) << part.services;
    EXPECT_EQ(file->survive, 1);
    ASSERT_EQ(file->services.size(), part.plan.services.size());
    for (std::size_t i = 0; i < file->services.size(); ++i) {
      plan::Terms row = part.plan.services[i];
      row.dispatch = file->services[i].dispatch;
      EXPECT_EQ(file->services[i], row);
      ++pieces;
    }
  }
  EXPECT_GE(pieces, 2);
}

// Where a GPU may be lost a node is planned from nothing; as few instances move for it as can be,
// whichever of its GPUs becomes which.
TEST(Leader, GpusThatMayBeLostKeepWhatTheyCan) {
  Rng rng(31);
  int stayed = 0;
  for (int round = 0; round < test_rounds(12); ++round) {
    TestFleet fleet(1, 4);
    Rates rates{{"a", 300 + 300 * rng.uniform()}, {"b", 100 + 200 * rng.uniform()}, {"c", 60}};
    const auto want = [&] {
      fleet.view.wanted->services = "survive: gpu\n" + services_of_tests(rates);
      fleet.settle();
    };
    want();
    const NodeRecord& node = fleet.view.nodes.at("n0");
    plan::ServingPlan before, after;
    before.gpus = node.runs;
    std::next(rates.begin(), static_cast<long>(rng.below(3)))->second *= 1.6;
    want();
    after.gpus = node.runs;
    const int moved = plan::changes_between(before, after).moved;
    stayed += plan::changes_between(before, after).kept;
    std::vector<int> indices{0, 1, 2, 3};
    do {
      for (std::size_t g = 0; g < after.gpus.size(); ++g) after.gpus[g].index = indices[g];
      EXPECT_LE(moved, plan::changes_between(before, after).moved) << "round " << round;
    } while (std::ranges::next_permutation(indices).found);
  }
  EXPECT_GT(stayed, 0);
}

TEST(Leader, RevisionsGrow) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}});
  const long first = fleet.decide().parts.at(0).revision;
  fleet.settle();
  fleet.view.nodes.begin()->second.taken = 77;  // of a store that was lost
  fleet.want({{"a", 900}});
  EXPECT_GT(fleet.decide().parts.at(0).revision, std::max(first, 77L));
}

// A node could not make its instances where they were planned, since that was lent meanwhile, and
// planned for itself: what it carries on is where it is, and not where its part said.
TEST(Leader, WhatWasPlannedForPlacesThatAreLentByNowIsPlannedAgain) {
  TestFleet fleet(1, 2);
  fleet.want({{"a", 300}, {"b", 300}});
  fleet.settle();
  NodeRecord& node = fleet.view.nodes.at("n0");
  ASSERT_EQ(node.runs.size(), 1u);
  const int planned = node.runs[0].index;
  node.runs[0].index = 1 - planned;
  node.gpus.at(static_cast<std::size_t>(planned)).lent = {{"7g.80gb", 0}};
  fleet.want({{"a", 300}});
  ASSERT_EQ(fleet.decide().parts.size(), 1u);
  const plan::ServingPlan& next = fleet.view.parts.at("n0").plan;
  ASSERT_EQ(next.services.size(), 1u);
  for (const plan::PlannedGpu& gpu : next.gpus)
    EXPECT_TRUE(gpu.index != planned || gpu.instances.empty());
}

// What is lent on a node stays: its other slices carry services, a GPU that is lent whole none.
TEST(Leader, PlansBesideWhatIsLent) {
  TestFleet fleet(1);
  NodeRecord& node = fleet.view.nodes.at("n0");
  node.gpus[0].lent = {{"7g.80gb", 0}};
  node.gpus[1].lent = {{"1g.10gb", 0}};
  fleet.want({{"a", 300}});
  fleet.settle();
  const plan::ServingPlan& plan = fleet.view.parts.at("n0").plan;
  ASSERT_FALSE(plan.gpus.empty());
  for (const plan::PlannedGpu& gpu : plan.gpus) {
    EXPECT_EQ(gpu.index, 1);
    for (const plan::PlannedInstance& one : gpu.instances) EXPECT_GT(one.start, 0);
  }
}

TEST(Documents, AreReadAsTheyWereWritten) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}, {"b", 2500}});
  fleet.settle();
  for (const auto& [name, node] : fleet.view.nodes) {
    NodeRecord full = node;
    full.rack = "r", full.zone = "z", full.trouble = "none", full.gateway = "h:1", full.api = "h:2";
    full.gpus[0].unusable = "lost";
    full.plans = {"A100-80GB"};
    full.gpus[1].lent = {{"1g.10gb", 6}, {"3g.40gb", 0}};
    plan::PlannedInstance model;
    model.profile = "7g.80gb", model.service = "lm", model.batch = 4, model.processes = 1;
    model.engine.configuration = "an engine";
    model.prefill_units = 30, model.decode_units = 68, model.held = 3;
    full.runs.push_back({.index = 7, .model = "A100-80GB", .instances = {model}});
    const auto read = parse_node_record("k", write(full));
    ASSERT_TRUE(read.has_value()) << to_string(read.error());
    EXPECT_EQ(read->gpus, full.gpus);
    EXPECT_EQ(read->carries, full.carries);
    EXPECT_EQ(read->runs.back(), full.runs.back());
    EXPECT_EQ(write(*read), write(full));
  }
  for (auto [name, part] : fleet.view.parts) {
    part.waits_for = {{"n9", 4}};
    part.elsewhere = {{"a", 1.5}};
    const auto read = parse_part("k", write(part));
    ASSERT_TRUE(read.has_value()) << to_string(read.error());
    EXPECT_EQ(*read, part);
  }
  const Wanted wanted{
      "services: []\n", Survive::rack, Approval::approve, {{"chat", 2}}, {"n1"}, "abc", "me"};
  EXPECT_EQ(*parse_wanted("k", write(wanted)), wanted);
  const Proposal proposal{"d", {"one", "two"}};
  EXPECT_EQ(*parse_proposal("k", write(proposal)), proposal);
  const FleetEvent event{5, 7, "n1", "it leads"};
  EXPECT_EQ(*parse_fleet_event("k", write(event)), event);
  const RateRecord rates{{{"a", 1.5}}, {{"b", 2.5}}, {{"a", "at_risk"}}};
  EXPECT_EQ(*parse_rate_record("k", write(rates)), rates);
  EXPECT_FALSE(parse_part("k", "{}").has_value());
}

TEST(View, HearsKeysAndNamesWhatIsDamaged) {
  const Keys keys("f");
  FleetView view;
  view.hear(keys, keys.node("n1"), write(node_of_tests("n1")), 3);
  view.hear(keys, keys.wanted(), write(Wanted{}), 4);
  view.hear(keys, keys.part("n1"), "{", 5);
  view.hear(keys, "/partita/g/nodes/n2", write(node_of_tests("n2")), 6);
  EXPECT_EQ(view.nodes.size(), 1u);
  EXPECT_TRUE(view.wanted.has_value());
  EXPECT_TRUE(view.parts.empty());
  EXPECT_EQ(view.versions.at("n1"), 5);
  EXPECT_TRUE(view.damaged.contains(keys.part("n1")));
  view.hear(keys, keys.node("n1"), std::nullopt, 7);
  view.hear(keys, keys.part("n1"), std::nullopt, 8);
  EXPECT_TRUE(view.nodes.empty());
  EXPECT_TRUE(view.damaged.empty());
  EXPECT_FALSE(parse_fleet_word("--fleet-name", "a/b").has_value());
  EXPECT_FALSE(parse_fleet_word("--fleet-name", "").has_value());
  EXPECT_EQ(*parse_fleet_word("--fleet-name", "prod-1.eu"), "prod-1.eu");
}

// Random wishes, losses, returns and drains, with parts carried out in random order and leaders
// that see what is there half way: no service that had what it needs loses it but by a loss.
TEST(Leader, NothingIsMissingButAfterALoss) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(30)); ++seed) {
    Rng rng(seed);
    TestFleet fleet(4, 2);
    fleet.view.wanted->survive = seed % 3 == 0 ? Survive::node : Survive::none;
    Rates rates{{"a", 200}, {"b", 500}, {"c", 900}};
    fleet.want(rates);
    fleet.settle();
    std::map<std::string, NodeRecord> away;
    for (int turn = 0; turn < 12; ++turn) {
      bool loss = false;
      const std::string node = fmt::format("n{}", rng.below(4));
      auto& drained = fleet.view.wanted->drained;
      switch (rng.below(4)) {
        case 0:
          if (fleet.view.nodes.size() == 4) {
            away.insert(fleet.view.nodes.extract(node));
            loss = true;
          }
          break;
        case 1:
          fleet.view.nodes.merge(away);
          break;
        case 2:
          drained = drained.empty() ? Names{node} : Names{};
          break;
        default: {
          auto one = rates.begin();
          std::advance(one, rng.below(3));
          one->second *= 0.7 + 0.6 * rng.uniform();
          fleet.want(rates);
        }
      }
      std::map<std::string, double> had;
      for (const auto& [service, rate] : rates)
        had[service] = std::min(rate, fleet.carried(service));
      for (int step = 0; step < 6; ++step) {
        fleet.decide();
        fleet.carry_out_random(rng);
        for (auto& [service, rate] : had) {
          EXPECT_GE(fleet.carried(service), loss ? 0 : rate * (1 - 1e-6))
              << "seed " << seed << " turn " << turn << " " << service;
          rate = std::max(rate, std::min(rates[service], fleet.carried(service)));
        }
      }
      fleet.settle();
      for (const auto& [name, part] : fleet.view.parts)
        if (fleet.view.nodes.contains(name)) expect_judged(fleet, part);
    }
    EXPECT_EQ(fleet.settle(), 0) << seed;
  }
}

}  // namespace
}  // namespace partita::fleet
