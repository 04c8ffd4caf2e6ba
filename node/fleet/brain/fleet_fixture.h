// A fleet for tests: nodes of A100-80GB that carry out their parts when they are told to, without a
// store between them; and an oracle of what services have.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "fleet/brain/leader.h"
#include "fleet/brain/member.h"
#include "hw/catalogue.h"
#include "profile/readers.h"

namespace partita::fleet {

inline const FleetGround& ground_of_tests() {
  static const FleetGround ground = [] {
    std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
    for (const int gpcs : {1, 2, 3, 4, 7})
      for (const int batch : {1, 2, 4, 8}) {
        const double latency = 5 + 5.0 * batch / gpcs;
        text += fmt::format("m,{},{},1,{},{},500\n", gpcs, batch, 1000 * batch / latency, latency);
      }
    const auto profiles = profile::parse_native_csv("profiles.csv", text);
    CHECK(profiles.has_value());
    FleetGround made;
    made.profiles.push_back({**hw::builtin_catalogue().get("A100-80GB"), *profiles, {}, 1});
    return made;
  }();
  return ground;
}

inline NodeRecord node_of_tests(const std::string& name, int gpus = 2) {
  NodeRecord node;
  node.node = name;
  for (int g = 0; g < gpus; ++g)
    node.gpus.push_back({g, fmt::format("GPU-{}-{}", name, g), "A100-80GB"});
  return node;
}

inline std::string services_of_tests(const Rates& rates) {
  std::string text = "services:\n";
  for (const auto& [name, rate] : rates)
    text += fmt::format("  - {{name: {}, model: m, rate_rps: {}, slo_ms: 150}}\n", name, rate);
  return text;
}

// A node becomes as its part says.
inline void become(NodeRecord& node, const Part& part) {
  node.taken = node.ready = part.revision;
  node.carries = carried_of(rates_of(part));
  node.runs = part.plan.gpus;
}

struct TestFleet {
  FleetView view;
  Leader leader{ground_of_tests()};

  explicit TestFleet(int nodes, int gpus = 2) {
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
  // Carried by nodes that are there, drained or not.
  double carried(const std::string& service) const {
    double all = 0;
    for (const auto& [name, node] : view.nodes)
      for (const Carried& one : node.carries)
        if (one.service == service) all += one.rate_rps;
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
