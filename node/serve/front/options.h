// What a front door is told: where it listens, who may come in, and every limit it keeps.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/door/access_log.h"
#include "base/door/exchange.h"
#include "serve/front/tokens.h"

namespace partita::serve {

class PeerPool;

// What happens at a limit is said in docs/serving.md.
struct FrontLimits : DoorLimits {
  std::size_t body_bytes = 1u << 30;
  std::size_t json_bytes = 64u << 20;             // of a request's JSON
  std::size_t json_bytes_in_flight = 256u << 20;  // of all requests
};

struct FrontOptions {
  std::string listen = "127.0.0.1:8000";  // HOST:PORT; port 0: the kernel chooses
  std::string tls_certificate = {}, tls_key = {};
  Tokens tokens = {};                      // none, and no provider: everybody, from this machine
  std::shared_ptr<OidcTokens> oidc = {};   // of an OpenID provider; null: there is none
  std::optional<bool> shared_memory = {};  // unset: when it listens on loopback
  bool new_traces = false;                 // inferences without a trace context get one
  bool compress = false;                   // texts of 1 KiB to 1 MiB, for those who take gzip
  FrontLimits limits = {};
  AccessLogOptions access_log = {};
  std::vector<std::string> origins = {};  // whose pages may call it, as browsers say; "*": all
  PeerPool* peers = nullptr;  // gateways of other nodes; null: nothing is handed over

  bool asks_for_tokens() const { return !tokens.empty() || oidc != nullptr; }
};

}  // namespace partita::serve
