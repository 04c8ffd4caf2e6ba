// How many tokens of KV cache fit in an engine that does not say it. So many requests are sent at
// once, with as many tokens out as in, and different beginnings. Those that fit together all have
// their first token before any has its last, and none of them pauses while others go on; what they
// hold when the first of them ends has fitted. The number of requests is doubled while that goes
// well, then their length, and the last length is bisected. What is found is never more than there
// is. As many requests are sent as lose little by not beginning at the same time. Pure, but for
// `play`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/load/token_load.h"

namespace partita::serve {

// So many requests of so many tokens in, and as many out, all at once. Refused: not all were
// answered whole.
using PlayTogether = std::function<Result<std::vector<TokenTimes>>(int requests, int tokens)>;

struct KvProbe {
  int least_tokens = 32;             // in, and out, of the first requests
  int most_tokens = 1'000'000;       // of one
  int most_requests = 256;           // at a time, at most
  double precision = 0.02;           // the length is bisected to
  std::int64_t margin = 20'000'000;  // nanoseconds that first tokens are sooner than the first end
  std::function<bool()> is_over = {};  // time is up; null: never
};

struct KvFound {
  double tokens = 0;             // that fit, at least
  bool full = false;             // a little more did not fit
  int requests = 0, length = 0;  // that held them
  std::string ended = {};        // why nothing more was tried; "": it is known well enough
};

// Refused: not even a single request is answered.
Result<KvFound> find_kv_tokens(const KvProbe& probe, const PlayTogether& play);

// What requests held when the first of them ended; 0: they were not all held at that time.
double held_together(const std::vector<TokenTimes>& answers, std::int64_t margin);

}  // namespace partita::serve
