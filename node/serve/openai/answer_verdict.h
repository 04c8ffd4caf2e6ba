// What an engine's answer says, and of whom: one verdict, which metrics, gateway.json, status and
// page go by. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/terms.h"
#include "serve/openai/token_metrics.h"

namespace partita::serve {

enum class AnswerSays : std::uint8_t {
  answered,
  rejected,  // its client asked wrongly: 400, 413, 422, or for what this engine never does
  busy,      // 429, 503: nothing was run, and it may be sent again
  unfit,     // the engine is not what its service says: another model, a key that it wants
  nothing,   // it looks like an answer, or leads elsewhere, and is none
  failed,    // anything else
};

// `other_path_only`: the engine has answered requests, and never one for this path. `is_answer`: it
// has the form of one.
AnswerSays what_says(int status, bool other_path_only, bool is_answer);
// Where it goes to its client as it is.
long TokenFates::*fate_of(AnswerSays says, int status);

// What is known of a whole answer's times, nanoseconds; 0: not known.
struct AnswerTimes {
  std::int64_t ttft = 0, tpot = 0, e2e = 0;
  // Of the longest of its choices, at most; nothing: nobody said.
  std::optional<std::int64_t> tokens = {};
  bool empty = false;  // no token came, as far as is known
};
// Whether all that is promised was kept, as far as is known: who sees the end of an answer alone
// knows that TTFT and TPOT were not both kept where it took longer than both allow together. Of an
// empty one nothing was.
bool keeps(const plan::Terms& promised, const AnswerTimes& took);
// Whether it took longer than is promised to its first token, and per token after it; nothing: no
// such time is promised, or it had no second token.
std::optional<bool> late_by_ttft(const plan::Terms& promised, std::int64_t ttft);
std::optional<bool> late_by_tpot(const plan::Terms& promised, const AnswerTimes& took);

}  // namespace partita::serve
