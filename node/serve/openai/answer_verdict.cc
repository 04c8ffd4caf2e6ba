#include "serve/openai/answer_verdict.h"

#include <algorithm>

namespace partita::serve {
namespace {

constexpr int kTooMany = 429, kUnavailable = 503;

std::int64_t nanos(Millis time) { return static_cast<std::int64_t>(time.value * 1e6); }

}  // namespace

AnswerSays what_says(int status, bool other_path_only, bool is_answer) {
  if (status < 400) {
    const bool good = status >= 200 && status <= 299 && is_answer;
    return good ? AnswerSays::answered : AnswerSays::nothing;
  }
  switch (status) {
    case 400:
    case 413:
    case 422:
      return AnswerSays::rejected;
    case kTooMany:
    case kUnavailable:
      return AnswerSays::busy;
    case 404:
    case 405:
    case 501:
      return other_path_only ? AnswerSays::rejected : AnswerSays::unfit;
    case 401:
    case 403:
      return AnswerSays::unfit;
    default:
      return AnswerSays::failed;
  }
}

long TokenFates::*fate_of(AnswerSays says, int status) {
  switch (says) {
    case AnswerSays::answered:
      return &TokenFates::answered;
    case AnswerSays::rejected:
      return &TokenFates::rejected;
    case AnswerSays::busy:
      return status == kTooMany ? &TokenFates::full : &TokenFates::failed;
    case AnswerSays::unfit:
    case AnswerSays::nothing:
    case AnswerSays::failed:
      break;
  }
  return &TokenFates::failed;
}

bool keeps(const plan::Terms& promised, const AnswerTimes& took) {
  if (took.empty) return false;
  if (promised.slo.value > 0 && took.e2e > nanos(promised.slo)) return false;
  if (!promised.tokens) return true;
  const std::int64_t ttft = nanos(promised.tokens->ttft), tpot = nanos(promised.tokens->tpot);
  if (took.ttft > 0) return !(ttft > 0 && took.ttft > ttft) && !(tpot > 0 && took.tpot > tpot);
  if (ttft <= 0 || !took.tokens) return true;
  const std::int64_t more = std::max<std::int64_t>(*took.tokens - 1, 0);
  return (more > 0 && tpot <= 0) || took.e2e <= ttft + tpot * more;
}

std::optional<bool> late_by_ttft(const plan::Terms& promised, std::int64_t ttft) {
  const std::int64_t most = promised.tokens ? nanos(promised.tokens->ttft) : 0;
  return most > 0 ? std::optional(ttft > most) : std::nullopt;
}

std::optional<bool> late_by_tpot(const plan::Terms& promised, const AnswerTimes& took) {
  const std::int64_t tpot = promised.tokens ? nanos(promised.tokens->tpot) : 0;
  if (tpot <= 0 || took.tpot <= 0) return std::nullopt;
  return took.tpot > tpot;
}

}  // namespace partita::serve
