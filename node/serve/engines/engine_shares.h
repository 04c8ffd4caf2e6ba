// EngineShares: who of those that ask a language model is let in while more comes than it carries.
// Those of a lower priority than others may use up less of the promised TTFT, by what of the
// engines' time the others had of late; among those of one priority each key gets its part of what
// waits for its first token. Loop thread only.
#pragma once

#include <cstdint>
#include <map>

#include "serve/brain/fair_shares.h"

namespace partita::serve {

class EngineCall;

class EngineShares {
 public:
  // What one of that priority may use up of the promised TTFT, nanoseconds.
  std::int64_t may_use(int priority, std::int64_t promised, std::int64_t now) const;
  // When it would have its first token, of what it may use up, behind how many requests.
  struct Expected {
    std::int64_t ttft = 0, most = 0;  // most 0: it may wait as long as it takes
    int ahead = 0;
  };
  // It has come: whether its key may have it now; one without a key always. A key counts as there
  // for some times as long as a TTFT of `promised` and an answer take, from its last request on.
  bool may(EngineCall& call, const Expected& expected, std::int64_t promised, std::int64_t now);
  void refused(const EngineCall& call, std::int64_t now);  // for another reason
  // `part`: of the time of all engines that it will take, nanoseconds.
  void let_in(const EngineCall& call, std::int64_t part, std::int64_t now);
  void has_token(EngineCall& call);  // its first, or it has ended: it does not wait any more
  void answered(double tokens, std::int64_t took);  // of prompt and answer

 private:
  struct Rank {
    double used = 0;         // parts of the engines' time; what is older counts for less
    std::int64_t since = 0;  // `used` is of
    FairShares shares = {};
  };
  double used_by(const Rank& rank, std::int64_t now) const;

  std::map<int, Rank> ranks_ = {};  // by priority
  double mean_tokens_ = 200;        // of a request
  double mean_took_ = 1e9;
};

}  // namespace partita::serve
