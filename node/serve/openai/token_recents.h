// TokenRecents: what a language model did of late: tokens a second, lengths, TTFT and TPOT, of the
// last half minute. Pure; constant memory.
#pragma once

#include <array>
#include <cstdint>

#include "act/gateway_state.h"
#include "serve/openai/event_stream.h"
#include "sim/histogram.h"

namespace partita::serve {

class TokenRecents {
 public:
  // Times in nanoseconds, which never go back.
  void first_token(std::int64_t now, std::int64_t ttft);
  void answered(std::int64_t now, const TokenUsage& used, std::int64_t tpot);  // 0: not known
  actuate::TokenTraffic traffic(std::int64_t now);

 private:
  struct Half {
    std::int64_t began = 0;  // 0: nothing was noted
    TokenUsage used = {};
    long answers = 0;          // of some tokens: of embeddings there are none
    std::int64_t prompts = 0;  // tokens of theirs
    sim::LatencyHistogram ttft = {}, tpot = {};
  };
  Half& turned(std::int64_t now);

  std::array<Half, 2> halves_ = {};  // the newer one first
};

}  // namespace partita::serve
