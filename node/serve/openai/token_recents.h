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
  // `told`: by its engine, else guessed, which teaches no lengths. `tpot` 0: not known.
  void answered(std::int64_t now, const TokenUsage& used, bool told, std::int64_t tpot);
  // As it would have been late: a prompt of about so many tokens was asked for, too.
  void refused(std::int64_t now, int prompt_tokens);
  actuate::TokenTraffic traffic(std::int64_t now);

 private:
  struct Half {
    std::int64_t began = 0;  // 0: nothing was noted
    TokenUsage used = {};
    // Whose tokens were told, and are some: embeddings have no answers.
    long prompts = 0, answers = 0;
    TokenUsage lengths = {};  // of these together
    sim::LatencyHistogram ttft = {}, tpot = {};
  };
  Half& turned(std::int64_t now);

  std::array<Half, 2> halves_ = {};  // the newer one first
};

}  // namespace partita::serve
