// What planners and the judge know of language models: one engine (profile/token_engine.h) for
// every configuration that was measured on a GPU model, learned from its points.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "llm/points.h"
#include "profile/token_engine.h"

namespace partita::llm {

// Whether points of this `system` are of that GPU model: its catalogue name, or a common short one
// such as h100_sxm.
bool is_on(const std::string& system, const std::string& gpu_model);

// GPUs of a group: tensor x pipeline x attention data parallel.
int gpus_of(const Configuration& configuration);

// Engines of these models on that GPU model. Left out: configurations with fewer than
// kLeastEnginePoints points or groups other than 1, 2, 4 and 8 GPUs.
Result<profile::TokenTable> engines_of(const std::vector<Measured>& all,
                                       const std::string& gpu_model,
                                       const std::set<std::string>& models);

}  // namespace partita::llm
