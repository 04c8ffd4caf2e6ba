// Requests to play to an engine: how many tokens they have, when they arrive, which of them share a
// prefix. Lengths are fixed, lognormal or drawn from a list; arrivals are Poisson's, or those of a
// trace with its own lengths. The same seed gives the same requests. Limits: those of engine.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "llm/engine/engine.h"
#include "plan/arrivals.h"
#include "plan/tokens.h"

namespace partita::llm {

using plan::LognormalTokens, plan::ListedTokens, plan::Tokens, plan::TracedRequest;

struct Workload {
  Tokens in = 1, out = 1;
  double prefix_share = 0;  // of requests, which begin with the same tokens
  int prefix_tokens = 0;    // how many; a shorter prompt is made one longer than them
};

// `count` requests; rate 0: all at once, for closed loops. Refused: what is outside of its limits.
Result<std::vector<Request>> requests_of(const Workload& workload, Rps rate, int count,
                                         std::uint64_t seed);

// A request of a service with tokens, without its arrival.
Request request_of(const plan::TokenTerms& terms, Rng& rng);
// Those of a service that come to one of its replicas, `share` of what the source brings, drawn at
// random; milliseconds. Lengths, prefixes and who comes here are drawn from `rng`.
std::vector<Request> requests_of(const plan::TokenTerms& terms, plan::ArrivalSource arrivals,
                                 double share, int count, Rng rng);

// A trace: CSV with at_s, prompt_tokens, output_tokens, or TIMESTAMP, ContextTokens,
// GeneratedTokens, as Azure publishes its traces of 2023 (dates and times of day).
// Refused with FILE:LINE. Times do not fall; `at` counts from the first request.
Result<std::vector<TracedRequest>> parse_token_trace(const std::string& file,
                                                     std::string_view text);
// The trace, `speed` times as fast (above 0).
std::vector<Request> requests_of(const std::vector<TracedRequest>& trace, double speed = 1);

}  // namespace partita::llm
