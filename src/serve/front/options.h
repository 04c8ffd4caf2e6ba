// What a front door is told: where it listens, who may come in, and every limit it keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/front/tokens.h"

namespace partita::serve {

// Times are nanoseconds. What happens at a limit is said in docs/serving.md.
struct FrontLimits {
  std::size_t connections = 16'384;
  std::int64_t idle_ns = 75'000'000'000;        // between requests
  std::int64_t head_ns = 10'000'000'000;        // from a head's first byte to its last
  std::int64_t body_grace_ns = 10'000'000'000;  // for a body or an answer, besides its length by
  std::int64_t bytes_per_second = 65'536;       // ... this rate, the slowest that is let in
  std::size_t body_bytes = 1u << 30;
  std::size_t json_bytes = 64u << 20;             // of a request's JSON
  std::size_t json_bytes_in_flight = 256u << 20;  // of all requests
  std::size_t stream_bytes = 4u << 20;            // of an answer that its client does not fetch
};

struct AccessLogOptions {
  std::string file = {};  // none: no log
  std::size_t rotate_bytes = 64u << 20;
  int keep = 5;  // FILE.1 to FILE.5
};

struct FrontOptions {
  std::string listen = "127.0.0.1:8000";  // HOST:PORT; port 0: the kernel chooses
  std::string tls_certificate = {}, tls_key = {};
  std::vector<Token> tokens = {};          // none: everybody, from this machine
  std::optional<bool> shared_memory = {};  // unset: when it listens on loopback
  FrontLimits limits = {};
  AccessLogOptions access_log = {};
};

}  // namespace partita::serve
