// What planners and the judge know of language models: one engine (profile/token_engine.h) for
// every configuration that was measured on a GPU model, learned from its points.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "llm/engine/learned.h"
#include "llm/points.h"
#include "profile/token_engine.h"

namespace partita::llm {

// Whether points of this `system` are of that GPU model: its catalogue name, or a common short one
// such as h100_sxm.
bool is_on(const std::string& system, const std::string& gpu_model);

// GPUs of a group: tensor x pipeline x attention data parallel.
int gpus_of(const Configuration& configuration);

// The engine that these points tell of: of one configuration, at least kLeastEnginePoints.
Result<profile::TokenEngine> engine_of(const Measured& measured);
// With prefill apart: groups of such engines, on whole GPUs, of which a quarter, half or three
// quarters compute prompts and the others decode. A token's cache takes so long to move.
std::vector<profile::TokenEngine> apart_of(const profile::TokenEngine& one, double move_token_ms);
// Its constants, and room for so many requests in flight.
LearnedEngine learned_of(const profile::TokenEngine& engine, int in_flight);

// Of these models on that GPU model, where kv_move_ns is known with prefill apart, too. Left out:
// configurations with fewer than kLeastEnginePoints points, groups not of 1, 2, 4 or 8 GPUs.
Result<profile::TokenTable> engines_of(const std::vector<Measured>& all,
                                       const std::string& gpu_model,
                                       const std::set<std::string>& models);

}  // namespace partita::llm
