// A fleet for tests: nodes that carry out their parts when they are told to, without a store
// between them.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/member.h"
#include "fleet/brain/testing/invented_fleet.h"

namespace partita::fleet {

// A node becomes as its part says.
inline void become(NodeRecord& node, const Part& part) {
  node.taken = node.ready = part.revision;
  node.carries = carried_of(rates_of(part));
  node.runs = part.plan.gpus;
}

struct TestFleet {
  FleetView view;
  Leader leader;

  explicit TestFleet(int nodes, int gpus = 2, const FleetGround& ground = ground_of_tests())
      : leader(ground) {
    for (int n = 0; n < nodes; ++n) {
      const NodeRecord node = node_of_tests(fmt::format("n{}", n), gpus);
      view.nodes[node.node] = node;
    }
    view.wanted.emplace();
  }
  void want(const Rates& rates) { view.wanted->services = services_of_tests(rates); }

  // What the leader decides, written.
  Decision decide() {
    auto decision = leader.decide(view, "n0");
    CHECK(decision.has_value());
    for (const Part& part : decision->parts) view.parts[part.node] = part;
    return *std::move(decision);
  }
  // One node takes its part, if it may; whether it did.
  bool carry_out(const std::string& name) {
    NodeRecord& node = view.nodes.at(name);
    const MemberWord word = look_at_part(view, name, node.taken);
    if (word.take != nullptr) become(node, *word.take);
    return word.take != nullptr;
  }
  void carry_out_random(Rng& rng) {
    auto node = view.nodes.begin();
    std::advance(node, rng.below(view.nodes.size()));
    carry_out(node->first);
  }
  // Decides and carries out until nothing moves; how many parts were taken. `each` is called after
  // every one.
  template <class Each>
  int settle(const Each& each) {
    int taken = 0;
    for (int round = 0; round < 50; ++round) {
      const bool decided = !decide().parts.empty();
      bool moved = false;
      for (const auto& [name, node] : view.nodes)
        while (carry_out(name)) moved = true, ++taken, each();
      if (!decided && !moved) return taken;
    }
    CHECK(false);
  }
  int settle() {
    return settle([] {});
  }
  // Carried by nodes that are there, drained or not, but for one.
  double carried(const std::string& service, const std::string& without = {}) const {
    double all = 0;
    for (const auto& [name, node] : view.nodes)
      for (const Carried& one : node.carries)
        if (one.service == service && name != without) all += one.rate_rps;
    return all;
  }
  std::vector<std::string> nodes_of(const std::string& service) const {
    std::vector<std::string> names;
    for (const auto& [name, node] : view.nodes)
      for (const Carried& one : node.carries)
        if (one.service == service) names.push_back(name);
    return names;
  }
};

}  // namespace partita::fleet
