// One replica of a language model under its share of the traffic, as the judge sees it: continuous
// batching with chunked prefill, blocks of KV cache, preemption and a shared prefix, step by step.
// The rules are those of docs/llm.md (the engine); the code is the judge's own and as plain as can
// be: every step looks at every sequence.
#pragma once

#include <vector>

#include "base/units.h"
#include "plan/terms.h"
#include "profile/token_engine.h"

namespace partita::verify {

// A request, and what becomes of it; ms.
struct TokenRequest {
  double arrival = 0, first = 0, end = 0;  // of the first token and of the last one
  int in = 1, out = 1;
  bool prefix = false;   // begins with the tokens that others begin with
  bool refused = false;  // it fits no empty cache
  int came = 0;          // tokens of the prompt whose cache comes along
  double weight = 1;     // requests of the service that it stands for
};
// The same requests, served. Arrivals do not fall.
std::vector<TokenRequest> play(const profile::EngineSpec& spec, int prefix_tokens,
                               std::vector<TokenRequest> requests);

struct ReplicaLoad {
  int sequences = 1;  // at once, at most
  Rps rate;
  double percentile = 99;
};

struct ReplicaVerdict {
  bool holds = false;  // no more requests are late than the percentile allows
  double late = 0;     // share
  double late_ttft = 0, late_tpot = 0, late_whole = 0;
  // Share of the time that its work takes at least, whatever is promised: above 1 requests wait
  // ever longer, and nothing holds.
  double busy = 0;
  Millis whole;  // at the percentile, from arrival to the last token
};

// Whether an engine of these constants may be: a prompt's tokens cost something, and no GPU
// computes more than kMostPromptTokens of them in the time in which it reads the weights for one
// token. It does some 300 operations per byte that it reads, so that this is 300 where all weights
// are used; of mixtures of experts, where one token may be told to cost all of them, 20 times as
// many and more. Constants beyond that were learned from points that do not show what prompts cost.
inline constexpr double kMostPromptTokens = 20'000;
bool may_be(const profile::TokenEngine& engine);

// Seconds for which a request keeps the GPUs of a replica busy: all of one of them, or so much of
// each. Its prompt, and its part of steps with as many sequences as `sequences`, the cache and TPOT
// allow, all lengths at their means.
double busy_seconds(const plan::Terms& service, const profile::TokenEngine& engine, int sequences);

// `service` has tokens. Plays enough requests to see what is allowed thirty times over; of bursts
// and recordings that are too long for that what stands for them (plan/telling.h), by its weight.
ReplicaVerdict judge_replica(const plan::Terms& service, const profile::TokenEngine& engine,
                             const ReplicaLoad& load);

}  // namespace partita::verify
