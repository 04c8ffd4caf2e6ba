// What a node was to carry and cannot serve: lost there, carried elsewhere, and not given back to
// it at once.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/test_rounds.h"
#include "fleet/brain/testing/fleet_fixture.h"

namespace partita::fleet {
namespace {

// Nodes that carry out what they are told, and at some of which some services come to nothing.
struct FailingFleet : TestFleet {
  using TestFleet::TestFleet;
  std::set<std::pair<std::string, std::string>> fails;  // node, service

  // As an agent says it: of what its node took.
  void serve(const std::string& name) {
    NodeRecord& node = view.nodes.at(name);
    Rates serves = took_[name];
    node.trouble.clear();
    for (const auto& [at, service] : fails) {
      if (at != name || serves.erase(service) == 0) continue;
      if (std::ranges::count(node.unserved, service) == 0) node.unserved.push_back(service);
      node.trouble = "its gateway has too few workers of " + service;
    }
    node.carries = carried_of(serves);
    if (node.trouble.empty()) node.ready = node.taken;
  }
  // Until nothing is decided and nobody takes anything; how many parts were written.
  int settle() {
    int written = 0;
    for (int quiet = 0; quiet < 3;) {
      const auto decision = decide();
      written += static_cast<int>(decision.parts.size());
      bool moved = !decision.parts.empty();
      for (auto& [name, node] : view.nodes)
        if (const auto word = look_at_part(view, name, node.taken); word.take != nullptr) {
          node.taken = word.take->revision;
          node.runs = word.take->plan.gpus;
          took_[name] = rates_of(*word.take);
          serve(name);
          moved = true;
        }
      quiet = moved ? 0 : quiet + 1;
      if (written > 200) return written;
    }
    return written;
  }
  void fail(const std::string& name, const std::string& service) {
    fails.insert({name, service});
    serve(name);
  }
  double planned(const std::string& name, const std::string& service) {
    const auto part = view.parts.find(name);
    return part == view.parts.end() ? 0 : rates_of(part->second)[service];
  }

 private:
  std::map<std::string, Rates> took_;
};

TEST(Unserved, WhatANodeCannotServeIsElsewhereAtOnce) {
  FailingFleet fleet(3);
  fleet.want({{"a", 600}});
  fleet.view.wanted->approval = Approval::approve;  // a loss waits for nobody
  fleet.settle();
  const std::string node = fleet.nodes_of("a").at(0);
  ASSERT_EQ(fleet.nodes_of("a").size(), 1u);
  fleet.fail(node, "a");
  ASSERT_EQ(fleet.carried("a"), 0);
  const Decision decision = fleet.decide();
  ASSERT_GE(decision.parts.size(), 1u);
  for (std::size_t i = 0; i < decision.parts.size(); ++i)
    EXPECT_EQ(decision.urgent[i], decision.parts[i].node != node) << decision.changes[i];
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 599.9);
  EXPECT_EQ(fleet.planned(node, "a"), 0);
  // It is emptied, and well; more of it goes elsewhere all the same, and something else may come.
  EXPECT_EQ(fleet.view.nodes.at(node).trouble, "");
  fleet.want({{"a", 2400}, {"b", 300}});
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 2399.9);
  EXPECT_EQ(fleet.planned(node, "a"), 0);
  EXPECT_GE(fleet.carried("b"), 299.9);
  fleet.want({{"a", 9000}});  // more than the others have room for
  fleet.settle();
  EXPECT_EQ(fleet.planned(node, "a"), 0);
  fleet.view.nodes.at(node).unserved.clear();  // a while later
  fleet.settle();
  EXPECT_GT(fleet.planned(node, "a"), 0);
}

// It is planned anew, since it has lost a GPU, too: what it does not serve is elsewhere, too,
// by the same decision.
TEST(Unserved, WhoIsPlannedAnewIsNotCountedOnForIt) {
  FailingFleet fleet(3);
  fleet.want({{"a", 300}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a").at(0);
  const auto used =
      std::ranges::find_if(fleet.view.parts.at(node).plan.gpus, [](const plan::PlannedGpu& gpu) {
        return !gpu.instances.empty();
      })->index;
  fleet.view.nodes.at(node).gpus.at(static_cast<std::size_t>(used)).unusable = "off the bus";
  fleet.fail(node, "a");
  Rates elsewhere;
  for (const Part& part : fleet.decide().parts)
    if (part.node != node) elsewhere["a"] += rates_of(part)["a"];
  EXPECT_EQ(elsewhere, (Rates{{"a", 300}}));
}

// Its workers of one instance are gone: what they carried is made elsewhere, and the rest of them
// serve on as they are.
TEST(Unserved, WhatIsServedInPartStaysAndTheRestIsElsewhere) {
  FailingFleet fleet(2);
  fleet.want({{"a", 600}});
  fleet.settle();
  const std::string node = fleet.nodes_of("a").at(0);
  const long revision = fleet.view.parts.at(node).revision;
  NodeRecord& record = fleet.view.nodes.at(node);
  record.carries = {{"a", 400}};
  record.unserved = {"a"};
  record.trouble = "its gateway has too few workers of a";
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 599.9);
  EXPECT_EQ(rates_of(record.carries), (Rates{{"a", 400}}));
  EXPECT_EQ(fleet.view.parts.at(node).revision, revision);
  record.carries = {{"a", 600}};  // they are back
  record.unserved.clear();
  record.trouble.clear();
  fleet.settle();
  EXPECT_GE(fleet.carried("a"), 599.9);
}

// Nobody can serve some of them: nothing is moved to and fro for ever; what others can serve, they
// do.
TEST(Unserved, WhatNobodyCanServeIsNotMovedForEver) {
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(test_rounds(40)); ++seed) {
    Rng rng(seed);
    const int nodes = 2 + static_cast<int>(rng.below(3));
    FailingFleet fleet(nodes);
    if (rng.below(2) == 0) fleet.view.wanted->survive = Survive::node;
    fleet.want({{"a", 150}, {"b", 200}, {"c", 100}});
    fleet.settle();
    std::map<std::string, int> failing;
    for (const char* service : {"a", "b", "c"})
      for (int n = 0; n < nodes; ++n)
        if (rng.below(2) == 0) {
          fleet.fail(fmt::format("n{}", n), service);
          ++failing[service];
        }
    EXPECT_LE(fleet.settle(), 60) << "seed " << seed;
    EXPECT_EQ(fleet.settle(), 0) << "seed " << seed;
    for (const auto& [service, rate] : Rates{{"a", 150}, {"b", 200}, {"c", 100}})
      if (failing[service] < nodes) {
        EXPECT_GE(fleet.carried(service), rate * (1 - 1e-6)) << "seed " << seed << " " << service;
      }
  }
}

}  // namespace
}  // namespace partita::fleet
