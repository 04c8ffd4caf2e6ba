// What a key may have: requests and bytes per second and requests at a time, of language models
// requests and tokens per minute, too. The worth of a minute, or second, may come at once.
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
inline constexpr double kLongestNs = 1e18;  // that one is told to wait
// So much sooner than its time a request may come: clocks and networks are not exact. What it had
// sooner is owed, so that no more goes through.
inline constexpr double kSoonerNs = 20e6;

class RateBucket {
 public:
  explicit RateBucket(double unit_ns) : unit_(unit_ns) {}
  // How long until `need` are there; 0: they are.
  std::int64_t wait(double per_unit, double need, std::int64_t now) {
    refill(per_unit, now);
    need = std::min(need, per_unit);
    if (per_unit <= 0 || level_ >= need - kSoonerNs / unit_ * per_unit) return 0;
    return static_cast<std::int64_t>(std::min((need - level_) / per_unit * unit_, kLongestNs)) + 1;
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

// What a request takes of its key's limits.
struct KeyAsk {
  double tokens = 1, bytes = 0;  // it may come to, and it has
};

class KeyUse {
 public:
  // How long any request has to wait.
  std::int64_t wait(const KeyLimits& limits, std::int64_t now) { return wait(limits, 1, now); }
  // How long this one has to; 0: not at all, it is counted and under way. One of more tokens than a
  // minute's worth waits until all of that is there.
  std::int64_t ask(const KeyLimits& limits, const KeyAsk& asked, std::int64_t now) {
    if (const std::int64_t longest = wait(limits, asked.tokens, now); longest > 0) return longest;
    requests_.take(1);
    seconds_.take(1);
    tokens_.take(asked.tokens);
    bytes_.take(asked.bytes);
    ++under_way_;
    return 0;
  }
  void again() { ++under_way_; }  // one that was given back, and comes again
  // It took so many tokens more than it asked for, or fewer.
  void ended(double more_tokens = 0) {
    --under_way_;
    tokens_.take(more_tokens);
  }

 private:
  static constexpr std::int64_t kPause = 5'000'000;  // nobody knows when one of them ends
  std::int64_t wait(const KeyLimits& limits, double tokens, std::int64_t now) {
    if (limits.at_once > 0 && under_way_ >= limits.at_once) return kPause;
    return std::max({requests_.wait(limits.requests, 1, now),
                     tokens_.wait(limits.tokens, tokens, now),
                     seconds_.wait(limits.per_second, 1, now), bytes_.wait(limits.bytes, 1, now)});
  }

  RateBucket requests_{kMinuteNs}, tokens_{kMinuteNs}, seconds_{kSecondNs}, bytes_{kSecondNs};
  int under_way_ = 0;
};

}  // namespace partita::serve
