// Requests and tokens per minute of a key. A minute's worth may come at once; tokens are taken when
// an answer has ended, so that a key goes below nothing and then waits. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace partita::serve {

struct KeyLimits {
  double requests = 0, tokens = 0;  // per minute; 0: any number
  bool operator==(const KeyLimits&) const = default;
};

class MinuteBucket {
 public:
  // How long until `need` are there; 0: they are.
  std::int64_t wait(double per_minute, double need, std::int64_t now) {
    refill(per_minute, now);
    if (per_minute <= 0 || level_ >= need) return 0;
    return static_cast<std::int64_t>((need - level_) / per_minute * kMinute) + 1;
  }
  void take(double count) { level_ -= count; }

 private:
  static constexpr double kMinute = 60e9;
  void refill(double per_minute, std::int64_t now) {
    const double came = static_cast<double>(now - since_) / kMinute * per_minute;
    level_ = since_ == 0 ? per_minute : std::min(per_minute, level_ + came);
    since_ = now;
  }
  double level_ = 0;
  std::int64_t since_ = 0;
};

struct KeyUse {
  MinuteBucket requests = {}, tokens = {};

  // How long its next request has to wait; 0: not at all, and it is counted.
  std::int64_t ask(const KeyLimits& limits, std::int64_t now) {
    const std::int64_t wait =
        std::max(requests.wait(limits.requests, 1, now), tokens.wait(limits.tokens, 1, now));
    if (wait == 0) requests.take(1);
    return wait;
  }
};

}  // namespace partita::serve
