// Invented profiles, nodes and services, for tests and simulations of fleets: nodes of A100-80GB,
// models whose latency grows with the batch and shrinks with the size.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "fleet/brain/node_planner.h"
#include "hw/catalogue.h"
#include "profile/readers.h"

namespace partita::fleet {

inline const FleetGround& ground_of_tests() {
  static const FleetGround ground = [] {
    std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
    for (const char* model : {"m", "n"})
      for (const int gpcs : {1, 2, 3, 4, 7})
        for (const int batch : {1, 2, 4, 8}) {
          const double latency = 5 + 5.0 * batch / gpcs;
          text += fmt::format("{},{},{},1,{},{},500\n", model, gpcs, batch, 1000 * batch / latency,
                              latency);
        }
    const auto profiles = profile::parse_native_csv("profiles.csv", text);
    CHECK(profiles.has_value());
    FleetGround made;
    made.profiles.push_back({**hw::builtin_catalogue().get("A100-80GB"), *profiles, {}, 1});
    return made;
  }();
  return ground;
}

// The same with language models: `lm` was measured on 3g instances and whole GPUs, `pair` on
// groups of two GPUs alone, `quad` on groups of four.
inline const FleetGround& language_ground_of_tests() {
  static const FleetGround ground = [] {
    FleetGround made = ground_of_tests();
    auto& engines = made.profiles.front().engines;
    for (const auto& [model, profile, gpcs, gpus] : {std::tuple{"lm", "3g.40gb", 3, 1},
                                                     {"lm", "", 7, 1},
                                                     {"pair", "", 7, 2},
                                                     {"quad", "", 7, 4}}) {
      profile::TokenEngine engine{
          .name = {fmt::format("{} on {}", model, gpus)}, .mig_profile = profile, .gpus = gpus};
      const double speed = gpcs * gpus;
      engine.spec.cost = {.step = 40 / speed, .sequence = 1 / speed, .prompt_token = 0.5 / speed};
      engine.spec.sequences = 32;
      engine.most_in = engine.most_out = 4096;
      engines[model].push_back(engine);
    }
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

// One that is called way... goes through two models; no GPU is fast enough for one called tight...;
// those called lm..., pair... and quad... are language models.
inline bool is_language(const std::string& service) {
  return service.starts_with("lm") || service.starts_with("pair") || service.starts_with("quad");
}
inline std::string services_of_tests(const Rates& rates) {
  std::string text = "services:\n";
  for (const auto& [name, rate] : rates)
    if (name.starts_with("way"))
      text += fmt::format(
          "  - name: {}\n    rate_rps: {}\n    slo_ms: 300\n    pipeline:\n      steps:\n"
          "        - {{model_name: m, input_map: {{x: in}}, output_map: {{y: mid}}}}\n"
          "        - {{model_name: n, input_map: {{x: mid}}, output_map: {{y: out}}}}\n",
          name, rate);
    else if (is_language(name))
      text += fmt::format(
          "  - {{name: {}, model: {}, kind: llm, rate_rps: {}, tokens: {{in: 200, out: 50}}, slo: "
          "{{ttft_ms: 2000, tpot_ms: 60, percentile: 95}}}}\n",
          name, name.substr(0, name.starts_with("lm") ? 2 : 4), rate);
    else
      text += fmt::format("  - {{name: {}, model: m, rate_rps: {}, slo_ms: {}}}\n", name, rate,
                          name.starts_with("tight") ? 1 : 150);
  return text;
}

// Whose instances carry it.
inline std::vector<std::string> pools_of_tests(const std::string& service) {
  return service.starts_with("way") ? std::vector<std::string>{"m", "n"} : std::vector{service};
}

}  // namespace partita::fleet
