// For tests and benchmarks only: language models as they could be on an A100, from a roofline: a
// step reads the weights once, prompts cost what they compute. Nobody measured these.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "hw/catalogue.h"
#include "plan/serving.h"

namespace partita::planners::serving {

struct MadeUpModel {
  std::string name;
  double weights_gb = 8, cache_kb = 128;  // of a token
};

inline const std::vector<MadeUpModel>& made_up_models() {
  static const std::vector<MadeUpModel> kModels = {
      {"m3", 3, 60}, {"m8", 8, 128}, {"m14", 14, 160}, {"m32", 32, 256}, {"m70", 70, 320}};
  return kModels;
}

// `share` of so many GPUs of 80 GB and 2 TB/s; empty cache: does not fit.
inline std::optional<profile::TokenEngine> made_up_engine(const MadeUpModel& model,
                                                          const std::string& profile, double share,
                                                          int gpus) {
  const double memory = 0.9 * 80 * share * gpus - model.weights_gb;
  const double tokens = memory * 1e6 / model.cache_kb;
  if (tokens < 20'000) return std::nullopt;
  const double speed = share * std::pow(gpus, 0.85);  // groups lose to communication
  profile::TokenEngine engine{
      .name = {model.name + " made up"}, .mig_profile = profile, .gpus = gpus};
  engine.spec = {.cost = {.step = 1 + model.weights_gb / 2 / speed,
                          .sequence = 0.02 + model.weights_gb * 0.001 / speed,
                          .cached_token = model.cache_kb * 5e-7 / speed,
                          .prompt_token = model.weights_gb * 0.009 / speed,
                          .prompt_context = model.cache_kb * 1e-9 / speed},
                 .step_tokens = 4096,
                 .sequences = 256,
                 .blocks = static_cast<std::int64_t>(tokens / profile::kBlockTokens)};
  if (model.name == "m14" || model.name == "m32") {  // from where on computing takes longer
    engine.spec.cost.mixed = 0.05 * engine.spec.cost.step;
    engine.spec.cost.crowded = model.weights_gb * (model.name == "m14" ? 0.006 : 0.03) / speed;
    engine.spec.cost.crowded_from = 40;
  }
  engine.least_in = engine.least_out = 1;
  engine.most_in = engine.most_out = 100'000;
  return engine;
}

// A fleet of A100s that has measured all of them on MIG instances and groups of 1, 2, 4 and 8.
inline plan::FleetEntry made_up_fleet() {
  const auto gpu = hw::builtin_model("A100-80GB");
  CHECK(gpu);
  plan::FleetEntry entry{*gpu, {}, std::nullopt, 1};
  const std::pair<const char*, double> kShapes[] = {
      {"1g.10gb", 1.0 / 8}, {"2g.20gb", 2.0 / 8}, {"3g.40gb", 3.5 / 8}, {"4g.40gb", 4.0 / 8}};
  for (const MadeUpModel& model : made_up_models()) {
    auto& engines = entry.engines[model.name];
    for (const auto& [shape, share] : kShapes)
      if (auto engine = made_up_engine(model, shape, share, 1)) engines.push_back(*engine);
    for (const int gpus : {1, 2, 4, 8})
      if (auto engine = made_up_engine(model, "", 1, gpus)) engines.push_back(*engine);
  }
  return entry;
}

}  // namespace partita::planners::serving
