// What planners and the judge know of language models: one engine (profile/token_engine.h) for
// every configuration that was measured on a GPU model, learned from its points.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "llm/engine/learned.h"
#include "llm/law_report.h"
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
// How it does at the percentiles that were measured; none where none were, or there is no engine.
std::optional<TailErrors> tail_errors(const Measured& measured);
// With prefill apart: groups of such engines, on whole GPUs, of which a quarter, half or three
// quarters compute prompts and the others decode. A token's cache takes so long to move.
std::vector<profile::TokenEngine> apart_of(const profile::TokenEngine& one, double move_token_ms);
// Prefill and decode side by side in one GPU of so many units (SMs), by what one of its engines
// costs on some of them, or all: an eighth to seven eighths compute prompts, the others decode, as
// far as these numbers lie within the measured ones. A quarter of the KV cache is for prompts. What
// either takes from the other of the memory's bandwidth is in it where it was measured so.
using EnginesByUnits = std::map<int, profile::TokenEngine>;
std::vector<profile::TokenEngine> beside_of(const EnginesByUnits& measured, int units);
// Its constants, and room for so many requests in flight.
LearnedEngine learned_of(const profile::TokenEngine& engine, int in_flight);

// A GPU model: what of it an engine may have.
struct OfGpu {
  std::string model = {};
  int units = 0;                                  // SMs; 0: not known
  std::optional<double> memory_mib = {};          // of a whole one
  std::map<std::string, double> slices_mib = {};  // by MIG profile, where that is known
};

using ByModel = std::multimap<std::string, std::string>;
struct EngineTable {
  profile::TokenTable engines;
  // Configurations whose points do not tell what prompts cost, and what to measure; and those that
  // do not fit where they are said to have been measured.
  ByModel left_out;
  ByModel unsaid;  // what nobody knows of those that are there
};
// Whether an engine's weights are known to be too large for its GPUs, in a sentence; "": they are
// not. Where nobody says what they weigh, by the parameters that the model's name tells, of 4 bits.
std::string too_large(const Configuration& configuration, const OfGpu& gpu);

// Of these models on that GPU model, where kv_move_ns is known with prefill apart, too, and where
// parts of its SMs were measured with prefill beside decode. Ignored:
// configurations with fewer than kLeastEnginePoints points, groups not of 1, 2, 4 or 8 GPUs.
Result<EngineTable> engines_of(const std::vector<Measured>& all, const OfGpu& gpu,
                               const std::set<std::string>& models);

}  // namespace partita::llm
