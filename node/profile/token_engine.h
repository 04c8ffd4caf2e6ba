// Engines of language models as profiles know them: what a step costs one model on one partition,
// learned from what was measured there, and how far the measurements reach. Who simulates them step
// by step: llm/engine, and the judge by code of its own. Values.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/units.h"

namespace partita::profile {

inline constexpr int kBlockTokens = 16;  // of KV cache

// Milliseconds of a step.
struct StepCost {
  double step = 0;            // weights read, kernels launched
  double sequence = 0;        // per sequence that decodes
  double root_sequences = 0;  // per square root of their number
  double cached_token = 0;    // per token of KV cache that they read
  double prompt_token = 0;    // per token of prompts computed
  double prompt_context = 0;  // per pair of such a token and one before it
  double mixed = 0;           // of a step that computes prompts while others decode
  // Per sequence beyond so many, where computing takes longer than reading the weights; not beside
  // root_sequences, so that sequences per time have one maximum.
  double crowded = 0;
  int crowded_from = 0;
  bool operator==(const StepCost&) const = default;

  // Of a step in which so many decode, but for what they read and what prompts cost.
  double of_sequences(double n) const {
    return step + sequence * n + root_sequences * std::sqrt(n) +
           crowded * std::max(0.0, n - crowded_from);
  }
};

struct EngineSpec {
  StepCost cost = {};
  int step_tokens = 8192;           // budget of a step; at least `sequences`
  int sequences = 1024;             // at the same time, at most
  std::int64_t blocks = 1'000'000;  // of KV cache
  bool operator==(const EngineSpec&) const = default;
};

// What a simulated time is taken for, so that at no measured point it is below the percentiles that
// were measured there: so many times as long, or so much longer, whichever is less. Never shorter.
struct TailMargin {
  double times = 1, more_ms = 0;
  double of(double ms) const { return std::min(ms * times, ms + more_ms); }
  bool operator==(const TailMargin&) const = default;
};

// Which engine it is, from the measurement to who starts it. Empty, 0: not said.
struct EngineName {
  std::string configuration;  // all of it, for people; engines that differ in it are different ones
  std::string backend = {}, version = {}, precision = {};
  int tensor = 0, pipeline = 0, data = 0;  // GPUs that share a layer, stages, copies of attention
  bool empty() const { return configuration.empty(); }
  bool operator==(const EngineName&) const = default;
};

// Says something else than was measured; what it does not say is no contradiction.
inline bool contradicts(const EngineName& said, const EngineName& measured) {
  const auto other = [](const auto& a, const auto& b, const auto& unsaid) {
    return a != unsaid && a != b;
  };
  const std::string none;
  return other(said.backend, measured.backend, none) ||
         other(said.version, measured.version, none) ||
         other(said.precision, measured.precision, none) ||
         other(said.tensor, measured.tensor, 0) || other(said.pipeline, measured.pipeline, 0) ||
         other(said.data, measured.data, 0);
}

// One way to serve a model, on a MIG instance or on a group of whole GPUs of one node.
struct TokenEngine {
  EngineName name;
  std::string mig_profile;  // empty: whole GPUs
  int gpus = 1;             // of the group
  // Engines of the group that only compute prompts, and that only decode; 0: one does both. The
  // cache of a prompt is moved from one of these to one of those.
  int prefills = 0, decodes = 0;
  double move_token_ms = 0;
  // The two side by side in one GPU, on so many of its SMs each (0: not so): then prompts are
  // computed by an engine of `prompt_spec`.
  int prefill_units = 0, decode_units = 0;
  EngineSpec prompt_spec = {};
  EngineSpec spec = {};   // sequences: as many as were measured; blocks: that are known to fit
  double request_ms = 0;  // of a TTFT, outside of steps: tokenisation, network
  double request_token_ms = 0;  // the same per token of the prompt
  TailMargin ttft_tail = {}, tpot_tail = {};  // nothing where no percentiles were measured
  // Tokens in and out that were measured, from the least to the most.
  int least_in = 1, most_in = 1, least_out = 1, most_out = 1;
  bool operator==(const TokenEngine&) const = default;

  // Of a whole answer of so many tokens after the first: what it is taken for beyond simulation.
  double whole_tail_ms(double ttft_ms, double tpot_ms, double tokens) const {
    return ttft_tail.of(ttft_ms) - ttft_ms + tokens * (tpot_tail.of(tpot_ms) - tpot_ms);
  }
  const EngineSpec& prompts_by() const { return prefill_units > 0 ? prompt_spec : spec; }
  bool measured(double in, double out) const {
    return in >= least_in && in <= most_in && out >= least_out && out <= most_out;
  }
};
inline constexpr int kMostGroupedGpus = 8;

// By model name, of one GPU model.
using TokenTable = std::map<std::string, std::vector<TokenEngine>>;

}  // namespace partita::profile
