// What a key may have: of language models requests and tokens per minute, of all else requests and
// bytes per second, and requests at a time. The worth of a minute, or second, may come at once.
// Tokens are taken for what a request may come to, and what it did not is given back at its end, so
// that no number of requests at once is beyond the limit; bytes when they are known, so that a key
// goes below nothing and then waits.
// Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace partita::serve {

struct KeyLimits {
  double requests = 0, tokens = 0;   // per minute; 0: any number
  double per_second = 0, bytes = 0;  // requests, and bytes of them, per second; 0: any number
  double at_once = 0;                // 0: any number
  double weight = 1;                 // of its share where more is asked than there is
  double priority = 0;               // on top of what its requests say
  bool operator==(const KeyLimits&) const = default;
};

inline constexpr double kMinuteNs = 60e9, kSecondNs = 1e9;

class RateBucket {
 public:
  explicit RateBucket(double unit_ns) : unit_(unit_ns) {}
  // How long until `need` are there; 0: they are.
  std::int64_t wait(double per_unit, double need, std::int64_t now) {
    refill(per_unit, now);
    need = std::min(need, per_unit);
    if (per_unit <= 0 || level_ >= need) return 0;
    return static_cast<std::int64_t>((need - level_) / per_unit * unit_) + 1;
  }
  void take(double count) { level_ -= count; }

 private:
  void refill(double per_unit, std::int64_t now) {
    const double came = static_cast<double>(now - since_) / unit_ * per_unit;
    level_ = since_ == 0 ? per_unit : std::min(per_unit, level_ + came);
    since_ = now;
  }
  double unit_, level_ = 0;
  std::int64_t since_ = 0;
};

struct KeyUse {
  RateBucket requests{kMinuteNs}, tokens{kMinuteNs};

  // How long any request has to wait.
  std::int64_t wait(const KeyLimits& limits, std::int64_t now) {
    return std::max(requests.wait(limits.requests, 1, now), tokens.wait(limits.tokens, 1, now));
  }
  // How long a request of so many tokens has to wait; 0: not at all, and it is counted. One of more
  // than a minute's worth waits until all of that is there.
  std::int64_t ask(const KeyLimits& limits, double most_tokens, std::int64_t now) {
    const std::int64_t wait = std::max(requests.wait(limits.requests, 1, now),
                                       tokens.wait(limits.tokens, most_tokens, now));
    if (wait > 0) return wait;
    requests.take(1);
    if (limits.tokens > 0) tokens.take(most_tokens);
    return 0;
  }
};

}  // namespace partita::serve
