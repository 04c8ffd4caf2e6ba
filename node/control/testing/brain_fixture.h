// Worlds, nodes and plans for the tests of the loop and its brains.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>

#include "control/node_view.h"
#include "control/world.h"
#include "profile/readers.h"

namespace partita::control {

inline constexpr std::int64_t kMonday = 1'767'571'200'000;  // 5 January 2026, 00:00 UTC

inline profile::ProfileTable measured_profiles() {
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
  for (const int gpcs : {1, 2, 3, 4, 7})
    for (const int batch : {1, 2, 4, 8}) {
      const double latency = 5 + 5.0 * batch / gpcs;
      text += fmt::format("m,{},{},1,{},{},500\n", gpcs, batch, 1000 * batch / latency, latency);
    }
  return *profile::parse_native_csv("profiles.csv", text);
}

inline World small_world(Settings settings = {}) {
  static const profile::ProfileTable profiles = measured_profiles();
  World world;
  world.node = "node";
  world.settings = std::move(settings);
  world.catalogue = hw::builtin_catalogue();
  world.profiles.push_back({**world.catalogue.get("A100-80GB"), profiles, {}, 1});
  return world;
}

inline Settings automatic() {
  Settings settings;
  settings.mode = Mode::automatic;
  settings.node_budget = 20'000;
  return settings;
}

inline std::string services_text(const std::map<std::string, double>& rates,
                                 const std::string& more = {}) {
  std::string text = more + "services:\n";
  for (const auto& [name, rate] : rates)
    text += fmt::format("  - {{name: {}, model: m, rate_rps: {}, slo_ms: 150}}\n", name, rate);
  return text;
}

// Empty GPUs of a node, "GPU-0" and so on.
inline device::NodeState empty_gpus(int count) {
  device::NodeState state;
  for (int g = 0; g < count; ++g) {
    device::GpuState& gpu = state.gpus.emplace_back();
    gpu.index = g;
    gpu.uuid = fmt::format("GPU-{}", g);
    gpu.model = "A100-80GB";
    gpu.mig_capable = gpu.mig_enabled = gpu.mig_pending = true;
  }
  return state;
}

inline NodeView empty_node(const World& world, int gpus) {
  NodeView node;
  node.known = true;
  node.state = empty_gpus(gpus);
  node.use = gpus_for_services(world, node.state, {});
  return node;
}

inline plan::Service wanted_service(const std::string& name, double rate) {
  plan::Service service;
  service.name = name;
  service.model = "m";
  service.rate = Rps{rate};
  service.slo = Millis{150};
  return service;
}

}  // namespace partita::control
