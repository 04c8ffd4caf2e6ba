// What a front door is told: where it listens, who may come in, and every limit it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/exchange.h"
#include "serve/front/tokens.h"

namespace partita::serve {

// What happens at a limit is said in docs/serving.md.
struct FrontLimits : DoorLimits {
  std::size_t body_bytes = 1u << 30;
  std::size_t json_bytes = 64u << 20;             // of a request's JSON
  std::size_t json_bytes_in_flight = 256u << 20;  // of all requests
};

struct FrontOptions {
  std::string listen = "127.0.0.1:8000";  // HOST:PORT; port 0: the kernel chooses
  std::string tls_certificate = {}, tls_key = {};
  std::vector<Token> tokens = {};          // none: everybody, from this machine
  std::optional<bool> shared_memory = {};  // unset: when it listens on loopback
  bool new_traces = false;                 // inferences without a trace context get one
  FrontLimits limits = {};
  AccessLogOptions access_log = {};
};

}  // namespace partita::serve
