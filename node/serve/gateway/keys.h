// Keys: what those who send requests to services of tensors may have, and had. A key is a token.
// Pure; times are the caller's. Bounded by the number of tokens.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "serve/brain/service_brain.h"
#include "serve/openai/token_limits.h"

namespace partita::serve {

struct KeyUsage {  // of a service
  long answered = 0, rows = 0;
  long over_limit = 0, over_share = 0;  // refused
  std::uint64_t bytes = 0;              // of requests that were let in
};

class Keys {
 public:
  // How long a request has to wait for its key's limits; 0: not at all, and it is under way.
  Nanos ask(std::string_view key, const KeyLimits& limits, std::uint64_t bytes, Nanos now);
  void again(std::string_view key);  // one that was given back, and comes again
  void ended(std::string_view key);

 private:
  std::map<std::string, KeyUse, std::less<>> keys_;
};

}  // namespace partita::serve
