// An engine that serves a language model, step by step in virtual time: continuous batching with
// chunked prefill, blocks of KV cache, preemption and shared prefixes, as vLLM does it. A step:
//   1. Requests that have arrived wait, in order of arrival. If nothing runs or waits, time goes on
//      to the next arrival.
//   2. Every sequence that decodes computes one token, those admitted first before the others. A
//      token that begins a block takes a free one; while none is free, the sequence admitted last
//      is preempted: it gives its blocks back, waits in front of all others and computes its
//      prompt and what it produced anew.
//   3. What is left of the step's budget of tokens goes to prompts: the one that was begun, then
//      those that wait, in order, while there are sequences and blocks left for all that each has
//      to compute. None is admitted in a step that preempts. At most the last one stays unfinished.
//   4. The step takes its time (StepCost). Sequences whose tokens are all computed produce one.
// A prompt whose cache came along is computed anew where it was preempted.
// A shared prefix stays cached when nobody uses it, until its blocks are needed (the one unused
// longest goes first). Deterministic; a decoding step costs the same for any number of sequences.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "plan/tokens.h"
#include "profile/token_engine.h"

namespace partita::llm {

using plan::kMostTokens;
inline constexpr std::size_t kMostRequests = 5'000'000;
inline constexpr int kMostSequences = 1'000'000;
inline constexpr std::int64_t kMostBlocks = 1'000'000'000'000;

using profile::EngineSpec, profile::StepCost, profile::kBlockTokens;

struct Request {
  Millis arrival = {};    // ignored in a closed loop
  int in = 1, out = 1;    // tokens
  int prefix = -1;        // number of the prefix that it shares; none: -1
  int prefix_tokens = 0;  // of `in`, less than that; the same for all of a prefix
  int came = 0;  // of `in`, less: computed elsewhere, their cache comes along (no prefix then)
  double weight = 1;  // so many of the traffic's requests it stands for
};

// What became of a request.
struct Served {
  Millis arrival, first, end;  // of the first token and of the last one
  int preemptions = 0;
  int cached = 0;        // tokens of the prompt that were in the cache when it began
  bool refused = false;  // it fits no empty cache, or was not let in; the times are 0
  bool operator==(const Served&) const = default;

  Millis ttft() const { return first - arrival; }
};

struct EngineRun {
  std::vector<Served> requests;  // in the order of the requests
  std::int64_t steps = 0, tokens_out = 0, preemptions = 0;
  std::int64_t most_blocks = 0;  // of the cache in use at a time, at most
  int most_sequences = 0;        // begun and not ended at a time, at most
  Millis end;
  bool operator==(const EngineRun&) const = default;
};

// Who is let in, as a gateway's door does it (docs/llm.md) by what it knows: not those whose first
// token is expected later than `ttft` after they come; where nobody is there only those not who
// would be late with half of their prompt. Who has waited for longer than `wait` goes. 0: no limit.
struct Door {
  Millis ttft = {}, wait = {};
  double request_ms = 0, request_token_ms = 0;  // of a TTFT, outside of steps
  double mean_out = 1;                          // tokens of answers
  Millis tpot = {};        // 0: nothing is promised
  double may_be_late = 0;  // of answers; while more are, less is let in (plan/token_room.h)
};

// Open loop: arrivals do not fall. Closed loop: so many are in flight, in order; the next one comes
// when one ends, too late for the step that begins then. Refused: what is outside of its limits.
struct Loop {
  int in_flight = 0;  // 0: open loop
  Door door = {};     // of an open loop
};
Result<EngineRun> simulate(const EngineSpec& spec, std::span<const Request> requests,
                           const Loop& loop = {});

// Time per token after the first; 0 for a single token.
Millis tpot(const Served& served, const Request& request);

}  // namespace partita::llm
