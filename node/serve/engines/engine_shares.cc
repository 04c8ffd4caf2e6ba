#include "serve/engines/engine_shares.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "serve/engines/engine_call.h"

namespace partita::serve {
namespace {

constexpr double kShareOfNewest = 0.05;
constexpr double kOfLate = 2e9;      // that higher priorities had
constexpr double kMostOfRank = 0.5;  // of what the lower may use up
constexpr double kLeastDepth = 4;    // requests that may wait and be in time
constexpr double kMostRows = 64;     // of usual requests, that a long one counts for
// A key is there for so many times of what a request takes; nanoseconds at least, and at most.
constexpr double kTimesOfRequest = 8, kLeastThere = 1e9, kMostThere = 120e9;

}  // namespace

double EngineShares::used_by(const Rank& rank, std::int64_t now) const {
  return rank.used * std::exp(-static_cast<double>(now - rank.since) / kOfLate);
}

std::int64_t EngineShares::may_use(int priority, std::int64_t promised, std::int64_t now) const {
  auto most = static_cast<double>(promised);
  for (auto higher = ranks_.upper_bound(priority); higher != ranks_.end(); ++higher)
    most *= 1 - std::min(used_by(higher->second, now), kMostOfRank);
  return static_cast<std::int64_t>(most);
}

// How many may wait and be in time is told by how long the next would wait behind those that do.
bool EngineShares::may(EngineCall& call, const Expected& expected, std::int64_t promised,
                       std::int64_t now) {
  if (call.ask().key.empty()) return true;
  FairShares& shares = ranks_[call.ask().priority].shares;
  shares.remember(static_cast<Nanos>(std::clamp(
      kTimesOfRequest * (static_cast<double>(promised) + mean_took_), kLeastThere, kMostThere)));
  double depth = std::numeric_limits<double>::infinity();
  if (expected.most > 0)
    depth = std::max(1.0 * expected.ahead, shares.waiting()) * static_cast<double>(expected.most) /
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

void EngineShares::let_in(const EngineCall& call, std::int64_t part, std::int64_t now) {
  Rank& rank = ranks_[call.ask().priority];
  rank.used = used_by(rank, now) + static_cast<double>(part) / kOfLate;
  rank.since = now;
  if (!call.tag) return;
  rank.shares.let_in(call.ask().key, *call.tag, call.rows);
  for (int i = 0; i < call.rows; ++i) rank.shares.waits(call.ask().key, *call.tag);
}

void EngineShares::has_token(EngineCall& call) {
  if (!call.tag) return;
  FairShares& shares = ranks_[call.ask().priority].shares;
  for (int i = 0; i < call.rows; ++i) shares.begun(call.ask().key, *call.tag);
  call.tag.reset();
}

void EngineShares::answered(double tokens, std::int64_t took) {
  mean_tokens_ += kShareOfNewest * (std::max(tokens, 1.0) - mean_tokens_);
  mean_took_ += kShareOfNewest * (static_cast<double>(took) - mean_took_);
}

}  // namespace partita::serve
