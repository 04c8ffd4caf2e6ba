// Requests of language models as a load generator sends them, and what is seen of their answers:
// when the first token came, and the others. Prompts are made of common words, one for each token
// that is asked for; tokenisers make about as many of them. Values and texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "plan/tokens.h"
#include "serve/load/model_inputs.h"
#include "serve/openai/event_stream.h"
#include "sim/histogram.h"

namespace partita::serve {

// POST /v1/completions: a stream of as many tokens as are asked for, however the model would end
// (`ignore_eos`, which vLLM and SGLang know), with usage at its end. Of those that share a prefix
// the prompts begin alike; `rng` says which do, `words` what else they say.
std::string completion_request(const RequestTarget& target, const plan::TokenTerms& terms,
                               plan::Length length, Rng rng, Rng words);

// A streamed answer on its way. Times are nanoseconds on one clock.
class TokenAnswer {
 public:
  void take(std::string_view bytes, std::int64_t now);
  // All of it has come, without an error, and it has a token.
  bool whole() const { return done_ && !error_ && !events_.inside() && first_ > 0; }
  std::int64_t first() const { return first_; }  // 0: none has come
  std::int64_t tokens() const { return usage_ ? usage_->completion : seen_; }
  std::int64_t prompt() const { return usage_ ? usage_->prompt : 0; }
  std::int64_t tpot() const { return tokens() < 2 ? 0 : (last_ - first_) / (tokens() - 1); }
  const std::vector<std::int64_t>& gaps() const { return gaps_; }  // between tokens

 private:
  EventStream events_ = {};
  std::int64_t first_ = 0, last_ = 0, seen_ = 0;
  std::vector<std::int64_t> gaps_ = {};
  std::optional<TokenUsage> usage_ = {};
  bool done_ = false, error_ = false;
};

// When the tokens of a whole answer came, ascending.
struct TokenTimes {
  std::int64_t prompt = 0;  // tokens, as the engine counts them
  std::vector<std::int64_t> at = {};
};

// Of the answers that were whole.
struct TokenTally {
  sim::LatencyHistogram ttft, tpot, itl;
  long in = 0, out = 0, asked = 0;  // tokens; those of answers that were asked for
  bool keeps_times = false;
  std::vector<TokenTimes> times = {};  // where they are kept, by their ends

  // Counts it, of a request for so many tokens that was due then; whether all that is promised was
  // kept.
  bool end(const TokenAnswer& answer, const plan::TokenTerms& terms, int asked_out,
           std::int64_t due);
};

}  // namespace partita::serve
