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
  Millis whole;  // at the percentile, from arrival to the last token
};

// `service` has tokens. Plays enough requests to see what is allowed thirty times over.
ReplicaVerdict judge_replica(const plan::Terms& service, const profile::TokenEngine& engine,
                             const ReplicaLoad& load);

}  // namespace partita::verify
