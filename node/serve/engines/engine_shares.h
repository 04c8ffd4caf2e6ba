// EngineShares: who of those that ask a language model is let in while more comes than it carries.
// Those of a lower priority than others of late may use up less of the promised TTFT; among those
// of one priority each key gets its part of what waits for its first token. Loop thread only.
#pragma once

#include <cstdint>
#include <map>

#include "serve/brain/fair_shares.h"

namespace partita::serve {

class EngineCall;

class EngineShares {
 public:
  // One of that priority has come: what it may use up of the promised TTFT, nanoseconds.
  std::int64_t may_use(int priority, std::int64_t promised, std::int64_t now);
  // When it would have its first token, of what it may use up, behind how many requests.
  struct Expected {
    std::int64_t ttft = 0, most = 0;
    int ahead = 0;
  };
  // Whether its key may have it now; one without a key always.
  bool may(EngineCall& call, const Expected& expected, std::int64_t now);
  void refused(const EngineCall& call, std::int64_t now);  // for another reason
  void let_in(const EngineCall& call);
  void has_token(EngineCall& call);  // its first, or it has ended: it does not wait any more
  void answered(double tokens);      // of prompt and answer

 private:
  struct Rank {
    std::int64_t came = 0;  // the last one of that priority
    FairShares shares = {};
  };
  std::map<int, Rank> ranks_ = {};  // by priority
  double mean_tokens_ = 200;        // of a request
};

}  // namespace partita::serve
