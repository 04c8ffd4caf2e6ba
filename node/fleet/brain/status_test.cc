#include "fleet/brain/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleet/brain/peers.h"
#include "fleet/brain/testing/fleet_fixture.h"

namespace partita::fleet {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A service of 100 req/s on two nodes that carry some of it; what their agents say of it, and what
// arrives at the first's gateway.
std::string verdict(std::vector<double> carried, std::vector<std::string> said, double arrived,
                    Survive survive = Survive::none) {
  FleetView view;
  view.wanted = Wanted{"services: [{name: a, model: bert, rate_rps: 100, slo_ms: 400}]\n", survive};
  for (std::size_t i = 0; i < carried.size(); ++i) {
    const std::string name = "n" + std::to_string(i);
    view.nodes[name] = node_of_tests(name);
    view.nodes[name].carries = {{"a", carried[i]}};
    if (i < said.size()) view.verdicts[name] = {{"a", said[i]}};
  }
  view.rates["n0"] = {{"a", arrived}};
  const auto status = status_of(view, "f");
  return status ? status->services.at(0).verdict : to_string(status.error());
}

TEST(Status, ItsVerdictIsTheWorstOfItsNodesAndWhetherThereIsEnough) {
  EXPECT_EQ(verdict({50, 50}, {"serves", "serves"}, 10), "serves");
  EXPECT_EQ(verdict({50, 50}, {"serves", "at_risk"}, 10), "at_risk");
  EXPECT_EQ(verdict({50, 50}, {"serves", "down"}, 10), "degraded");
  EXPECT_EQ(verdict({50, 50}, {"down", "down"}, 10), "down");
  EXPECT_EQ(verdict({50, 50}, {"serves", "unknown"}, 10), "unknown");
  EXPECT_EQ(verdict({50, 50}, {"degraded", "unknown"}, 10), "degraded");
  EXPECT_EQ(verdict({50, 50}, {"serves"}, 10), "unknown");  // the other has said nothing
  EXPECT_EQ(verdict({50, 0}, {"serves", "down"}, 10),
            "at_risk");  // who carries nothing is not asked
  EXPECT_EQ(verdict({50, 0}, {"serves"}, 60), "degraded");
  EXPECT_EQ(verdict({0, 0}, {"serves", "serves"}, 10), "down");
  EXPECT_EQ(verdict({}, {}, 10), "down");
}

TEST(Status, ItIsAtRiskWhereALossWouldTakeSomeOfIt) {
  EXPECT_EQ(verdict({100, 100}, {"serves", "serves"}, 10, Survive::node), "serves");
  EXPECT_EQ(verdict({50, 50, 50}, {"serves", "serves", "serves"}, 10, Survive::node), "serves");
  EXPECT_EQ(verdict({200, 50}, {"serves", "serves"}, 10, Survive::node), "at_risk");
  EXPECT_EQ(verdict({200}, {"serves"}, 10, Survive::node), "at_risk");
  EXPECT_EQ(verdict({60, 60, 60}, {"serves", "serves", "down"}, 10, Survive::node), "degraded");
}

// Of a language model what its tokens take, where it does not promise the whole; balancers wait so.
TEST(Status, ItSaysHowLongAnAnswerIsPromisedToTake) {
  FleetView view;
  view.wanted = Wanted{R"(services:
  - {name: a, model: bert, rate_rps: 1, slo_ms: 400}
  - {name: b, kind: llm, model: m, rate_rps: 1, tokens: {in: 9, out: 100},
     slo: {ttft_ms: 900, tpot_ms: 40}}
  - {name: c, kind: llm, model: m, rate_rps: 1, tokens: {in: 9, out: 1},
     slo: {ttft_ms: 900, e2e_ms: 7000}}
  - {name: d, kind: llm, model: m, rate_rps: 1, tokens: {in: 9, out: 100}, slo: {ttft_ms: 900}}
  - {name: e, kind: llm, model: m, rate_rps: 1, tokens: {trace: [[9, 10], [5, 30]]},
     slo: {tpot_ms: 9}}
)"};
  const auto status = status_of(view, "f");
  ASSERT_TRUE(status) << to_string(status.error());
  std::vector<double> promised;
  for (const ServiceStatus& one : status->services) promised.push_back(one.answer_ms);
  EXPECT_EQ(promised, (std::vector<double>{400, 900 + 40 * 100, 7000, 0, 9 * 20}));
  EXPECT_EQ(parse_status("s", status_json(*status))->services.at(1).answer_ms, 4900);

  // Who writes a file's name for lengths hears what to do: nodes do not have the file.
  view.wanted = Wanted{R"(services:
  - {name: a, kind: llm, model: m, rate_rps: 1, tokens: {trace: a.csv}, slo: {tpot_ms: 9}}
)"};
  const auto unread = status_of(view, "f");
  ASSERT_FALSE(unread);
  EXPECT_NE(to_string(unread.error()).find("partita fleet apply"), std::string::npos);
}

TEST(Status, WhoStillCarriesIsNotDrained) {
  FleetView view;
  view.wanted = Wanted{.services = "", .drained = {"n0", "n1"}};
  view.nodes = {{"n0", node_of_tests("n0")}, {"n1", node_of_tests("n1")}};
  view.nodes["n0"].carries = {{"chat", 900}};
  const auto status = status_of(view, "f");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->nodes.at(0).state, "drains");
  EXPECT_EQ(status->nodes.at(1).state, "drained");
}

// Who does not know how well it is served knows that it is too little.
TEST(Status, TooLittleIsAtRiskWhateverIsNotKnown) {
  FleetView view;
  view.wanted = Wanted{"services:\n  - {name: a, model: m, rate_rps: 100, slo_ms: 50}\n"};
  view.nodes = {{"n0", node_of_tests("n0")}};
  for (const double carried : {100.0, 60.0}) {
    view.nodes["n0"].carries = {{"a", carried}};
    const auto status = status_of(view, "f");
    ASSERT_TRUE(status);
    EXPECT_EQ(status->services.at(0).verdict, carried < 100 ? "at_risk" : "unknown");
  }
}

TEST(Status, SaysWhichGpusAreLinked) {
  FleetView view;
  view.nodes = {{"n0", node_of_tests("n0", 6)}, {"n1", node_of_tests("n1")}};
  for (NodeGpu& gpu : view.nodes["n0"].gpus) gpu.nvlink = gpu.index < 4 ? 0 : 4;
  const auto status = status_of(view, "f");
  const auto read = parse_status("s", status_json(*status));
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_THAT(read->nodes.at(0).nvlink, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5)));
  EXPECT_THAT(read->nodes.at(1).nvlink, IsEmpty());
  const std::string text = status_text(*read);
  EXPECT_NE(text.find("6 of 6  0-3, 4 5"), std::string::npos) << text;
  EXPECT_NE(text.find("2 of 2  -"), std::string::npos) << text;
}

TEST(Status, WhatIsNotHeardIsUnknown) {
  FleetStatus status{.fleet = "f", .converged = true};
  status.nodes = {{.node = "n", .state = "ready"}};
  status.services = {{.service = "a", .verdict = "serves"}};
  make_stale(status, "no answer", 7);
  const auto read = parse_status("s", status_json(status));
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_FALSE(read->converged);
  EXPECT_EQ(read->fault, "no answer");
  EXPECT_EQ(read->as_of_ms, 7);
  EXPECT_EQ(read->nodes.at(0).state, "unknown");
  EXPECT_EQ(read->services.at(0).verdict, "unknown");
  EXPECT_NE(status_text(status).find("no answer"), std::string::npos);
}

// Three nodes, of which n0 asks: shares of others alone, and who is not there any more stays where
// it was until somebody carries what it had.
TEST(Status, ItsPeersCarryWhatTheyDidUntilOthersDo) {
  FleetStatus status{.fleet = "f"};
  for (const char* name : {"n0", "n1", "n2"})
    status.nodes.push_back({.node = name, .gateway = std::string(name) + ":80"});
  status.nodes.push_back({.node = "n3"});  // without a gateway
  status.services = {{.service = "a",
                      .carried_rps = 100,
                      .on = {{"n0", 50, 50, 0.5}, {"n1", 25, 25, 0.25}, {"n3", 25, 25, 0.25}}},
                     {.service = "b", .carried_rps = 10, .on = {{"n2", 10, 10, 1}}}};
  const auto first = peers_of(status, "n0", {});
  EXPECT_EQ(first, (actuate::GatewayPeers{
                       "n0",
                       {{"n1", "n1:80", "", {{"a", 0.25}}}, {"n2", "n2:80", "", {{"b", 1}}}},
                       {"a", "b"}}));
  // n2 is not heard any more; b is to be on n1, which does not carry it yet.
  status.nodes[2].there = false;
  status.services[1] = {.service = "b", .carried_rps = 0, .on = {{"n1", 10, 0, 1}}};
  const auto meanwhile = peers_of(status, "n0", first);
  EXPECT_EQ(meanwhile, (actuate::GatewayPeers{"n0",
                                              {{"n1", "n1:80", "", {{"a", 0.25}, {"b", 1}}},
                                               {"n2", "n2:80", "", {{"b", 1}}}},
                                              {"a", "b"}}));
  status.services[1] = {.service = "b", .carried_rps = 10, .on = {{"n1", 10, 10, 1}}};
  EXPECT_EQ(
      peers_of(status, "n0", meanwhile),
      (actuate::GatewayPeers{"n0", {{"n1", "n1:80", "", {{"a", 0.25}, {"b", 1}}}}, {"a", "b"}}));
}

// By way of the store each node is told the same; one that carries more changes its value alone.
TEST(Status, ItsPeersAreToldNodeByNode) {
  FleetStatus status{.fleet = "f"};
  for (const char* name : {"n0", "n1", "n2"})
    status.nodes.push_back({.node = name, .gateway = std::string(name) + ":80"});
  ServiceStatus& a = status.services.emplace_back(ServiceStatus{.service = "a"});
  const auto carried = [&](double n0, double n1, double n2) {
    a.carried_rps = a.shared_rps = n0 + n1 + n2;
    a.on.clear();
    for (const auto& [node, rate] : {std::pair("n0", n0), {"n1", n1}, {"n2", n2}})
      if (rate > 0) a.on.push_back({node, rate, rate, rate / a.shared_rps});
  };
  carried(50, 25, 5);
  const NodePeers first = node_peers(status, {});
  const auto told = peers_of(first, {"a"}, "n0", {});
  ASSERT_EQ(told.peers.size(), 2u);
  EXPECT_EQ(told.wanted, (std::vector<std::string>{"a"}));
  EXPECT_EQ(told.peers[0].http, "n1:80");
  EXPECT_NEAR(told.peers[0].carries.at(0).share, 25.0 / 80, 1e-6);
  EXPECT_NEAR(told.peers[1].carries.at(0).share, 5.0 / 80, 1e-6);
  for (const auto& [node, its] : first)
    EXPECT_EQ(*actuate::parse_peers(node, actuate::peers_json(its)), its);
  carried(50, 25, 37);
  const NodePeers second = node_peers(status, first);
  EXPECT_EQ(second.at("n0"), first.at("n0"));
  EXPECT_EQ(second.at("n1"), first.at("n1"));
  EXPECT_NE(second.at("n2"), first.at("n2"));
  // Nobody is said to carry it: all stay as they are, however often it is looked.
  a.carried_rps = 0;
  a.on.clear();
  EXPECT_EQ(node_peers(status, node_peers(status, second)), second);
  // The store has lost everything.
  EXPECT_EQ(peers_of(NodePeers{}, {"a"}, "n0", told), told);
  EXPECT_TRUE(peers_of(NodePeers{}, {}, "n0", told).peers.empty());
}

// A store that came back empty, or what is wanted is damaged in it: no word of any service.
TEST(Status, AStoreThatKnowsNoServicesTellsNobodyToSendNothing) {
  FleetView view;
  const auto empty = status_of(view, "f");
  ASSERT_TRUE(empty);
  EXPECT_FALSE(empty->converged);
  EXPECT_NE(status_text(*empty).find("its store has nothing of it"), std::string::npos);
  view.nodes["n1"] = node_of_tests("n1");
  view.damaged["wanted"] = "wanted:1: no JSON";
  const auto damaged = status_of(view, "f");
  ASSERT_TRUE(damaged);
  EXPECT_FALSE(damaged->converged);
  EXPECT_EQ(why_no_services(*damaged), "what is wanted is not there, or cannot be read");
  const actuate::GatewayPeers before{"n0", {{"n1", "n1:80", "", {{"a", 1}}}}, {"a"}};
  EXPECT_EQ(peers_of(*empty, "n0", before), before);
  EXPECT_EQ(peers_of(*damaged, "n0", before), before);
  EXPECT_EQ(peers_of(*empty, "n0", {}), (actuate::GatewayPeers{.node = "n0"}));
}

// A store that has lost its data: nodes carry what they took, and one of them alone has a part.
TEST(Status, WhoHasNoPartIsPlannedForWhatItCarries) {
  TestFleet fleet(3);
  fleet.want({{"a", 900}});
  for (const char* name : {"n0", "n1", "n2"}) {
    fleet.view.nodes[name].carries = {{"a", 300}};
    fleet.view.nodes[name].taken = fleet.view.nodes[name].ready = 7;
  }
  auto status = *status_of(fleet.view, "f");
  EXPECT_EQ(status.services.at(0).planned_rps, 900);
  EXPECT_EQ(status.revision, 7);
  EXPECT_TRUE(status.converged);
  for (const char* of : {"", "n1", "a"}) {
    const auto why = explain(fleet.view, of);
    ASSERT_TRUE(why) << to_string(why.error());
    EXPECT_NE(why->find("n1 has no part; it goes on with what it took, revision 7\n  a 300 req/s"),
              std::string::npos)
        << *why;
  }
  EXPECT_FALSE(explain(fleet.view, "b"));

  fleet.want({{"a", 1100}});
  const Decision decision = fleet.decide();
  ASSERT_EQ(decision.parts.size(), 1u);
  const std::string grows = decision.parts[0].node;
  for (const bool carried_out : {false, true}) {
    if (carried_out) {
      ASSERT_TRUE(fleet.carry_out(grows));
    }
    status = *status_of(fleet.view, "f");
    const ServiceStatus& a = status.services.at(0);
    double planned = 0;
    for (const ServiceOutlook& one : decision.services) planned += one.planned_rps;
    EXPECT_NEAR(a.planned_rps, planned, 1e-6);
    for (const ServicePiece& piece : a.on)
      EXPECT_NEAR(piece.share, carried_out ? piece.planned_rps / planned : 1.0 / 3, 1e-6)
          << piece.node;
    EXPECT_EQ(status.converged, carried_out);
  }
}

// Who is not there carries nothing out.
TEST(Status, NothingIsCarriedOutWhereNobodyIsThere) {
  TestFleet fleet(2);
  fleet.want({{"a", 300}, {"b", 200}});
  EXPECT_FALSE(status_of(fleet.view, "f")->converged);  // nobody ever had one
  fleet.settle();
  EXPECT_TRUE(status_of(fleet.view, "f")->converged);
  const auto nodes = fleet.view.nodes;
  fleet.view.nodes.clear();
  const auto status = *status_of(fleet.view, "f");
  EXPECT_FALSE(status.converged);
  EXPECT_EQ(status_text(status).find("carried out"), std::string::npos);
  const std::string plan = decision_text(fleet.decide());
  EXPECT_TRUE(plan.starts_with("nothing can be changed")) << plan;
  EXPECT_NE(plan.find("a: no node is there"), std::string::npos) << plan;
  // One serves nothing of what it has.
  fleet.view.nodes = nodes;
  fleet.view.nodes.at(fleet.nodes_of("a").at(0)).carries.clear();
  EXPECT_FALSE(status_of(fleet.view, "f")->converged);
}

}  // namespace
}  // namespace partita::fleet
