#include "serve/openai/token_recents.h"

#include <algorithm>
#include <utility>

namespace partita::serve {
namespace {

constexpr auto kHalfOfRecent = static_cast<std::int64_t>(actuate::kTrafficStretch / 2 * 1e9);

std::optional<double> ms(const sim::LatencyHistogram& one, const sim::LatencyHistogram& other,
                         double percent) {
  const sim::LatencyHistogram& fuller = one.count() >= other.count() ? one : other;
  if (fuller.count() == 0) return std::nullopt;
  return static_cast<double>(fuller.percentile(percent)) / 1e6;
}

}  // namespace

TokenRecents::Half& TokenRecents::turned(std::int64_t now) {
  auto& [newer, older] = halves_;
  if (newer.began > 0 && now - newer.began < kHalfOfRecent) return newer;
  const bool long_ago = now - newer.began >= 2 * kHalfOfRecent;
  older = long_ago ? Half{} : std::move(newer);
  newer = {.began = now};
  return newer;
}

void TokenRecents::first_token(std::int64_t now, std::int64_t ttft) {
  turned(now).ttft.add(std::max<std::int64_t>(ttft, 0));
}

void TokenRecents::answered(std::int64_t now, const TokenUsage& used, bool told,
                            std::int64_t tpot) {
  Half& half = turned(now);
  half.used.prompt += used.prompt;
  half.used.completion += used.completion;
  if (told && used.completion > 0) {
    ++half.answers, ++half.prompts;
    half.lengths.prompt += used.prompt;
    half.lengths.completion += used.completion;
  }
  if (tpot > 0) half.tpot.add(tpot);
}

void TokenRecents::refused(std::int64_t now, int prompt_tokens) {
  Half& half = turned(now);
  ++half.prompts;
  half.lengths.prompt += prompt_tokens;
}

actuate::TokenTraffic TokenRecents::traffic(std::int64_t now) {
  turned(now);
  const auto& [newer, older] = halves_;
  const std::int64_t began = older.began > 0 ? older.began : newer.began;
  const double seconds = static_cast<double>(std::max(now - began, kHalfOfRecent)) / 1e9;
  const auto in = static_cast<double>(newer.used.prompt + older.used.prompt);
  const auto out = static_cast<double>(newer.used.completion + older.used.completion);
  const auto mean = [&](std::int64_t TokenUsage::*tokens, long Half::*of) {
    return static_cast<double>(newer.lengths.*tokens + older.lengths.*tokens) /
           static_cast<double>(std::max(1L, newer.*of + older.*of));
  };
  return {.in_per_s = in / seconds,
          .out_per_s = out / seconds,
          .mean_in = mean(&TokenUsage::prompt, &Half::prompts),
          .mean_out = mean(&TokenUsage::completion, &Half::answers),
          .ttft_p50_ms = ms(newer.ttft, older.ttft, 50),
          .ttft_p99_ms = ms(newer.ttft, older.ttft, 99),
          .tpot_p50_ms = ms(newer.tpot, older.tpot, 50),
          .tpot_p99_ms = ms(newer.tpot, older.tpot, 99)};
}

}  // namespace partita::serve
