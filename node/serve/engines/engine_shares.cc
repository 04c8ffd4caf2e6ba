#include "serve/engines/engine_shares.h"

#include <algorithm>

#include "serve/engines/engine_call.h"

namespace partita::serve {
namespace {

constexpr double kShareOfNewest = 0.05;
constexpr std::int64_t kOfLate = 2'000'000'000;  // of priorities that came
constexpr int kMostHalves = 8;
constexpr double kLeastDepth = 4;  // requests that may wait and be in time
constexpr double kMostRows = 64;   // of usual requests, that a long one counts for

}  // namespace

std::int64_t EngineShares::may_use(int priority, std::int64_t promised, std::int64_t now) {
  ranks_[priority].came = now;
  std::int64_t most = promised;
  int halves = 0;
  for (auto higher = ranks_.upper_bound(priority); higher != ranks_.end(); ++higher)
    if (now - higher->second.came < kOfLate && ++halves <= kMostHalves) most /= 2;
  return most;
}

// How many may wait and be in time is told by how long the next would wait behind those that do.
bool EngineShares::may(EngineCall& call, const Expected& expected, std::int64_t now) {
  if (call.ask().key.empty()) return true;
  FairShares& shares = ranks_[call.ask().priority].shares;
  const double depth = std::max(1.0 * expected.ahead, shares.waiting()) *
                       static_cast<double>(expected.most) /
                       std::max(static_cast<double>(expected.ttft), 1.0);
  const double tokens = call.prompt_tokens + call.request().most_tokens;
  call.rows = static_cast<int>(std::clamp(tokens / mean_tokens_, 1.0, kMostRows));
  call.tag =
      shares.may(call.ask().key, call.ask().limits.weight, std::max(depth, kLeastDepth), now);
  return call.tag.has_value();
}

void EngineShares::refused(const EngineCall& call, std::int64_t now) {
  ranks_[call.ask().priority].shares.refused(call.ask().key, now);
}

void EngineShares::let_in(const EngineCall& call) {
  if (!call.tag) return;
  FairShares& shares = ranks_[call.ask().priority].shares;
  shares.let_in(call.ask().key, *call.tag, call.rows);
  for (int i = 0; i < call.rows; ++i) shares.waits(call.ask().key, *call.tag);
}

void EngineShares::has_token(EngineCall& call) {
  if (!call.tag) return;
  FairShares& shares = ranks_[call.ask().priority].shares;
  for (int i = 0; i < call.rows; ++i) shares.begun(call.ask().key, *call.tag);
  call.tag.reset();
}

void EngineShares::answered(double tokens) {
  mean_tokens_ += kShareOfNewest * (std::max(tokens, 1.0) - mean_tokens_);
}

}  // namespace partita::serve
