// GrpcFront: the gRPC door of a gateway, inference.GRPCInferenceService with the protocol's six
// calls and most of Triton's, on the same backend as the HTTP door. gRPC's own threads move bytes;
// everything that touches the backend happens on the loop. Messages are read by our codec: a tensor
// is copied once, from gRPC's slices into its slot. TLS and tokens as at the HTTP door (metadata
// `authorization`).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/door/access_log.h"
#include "base/door/loop.h"
#include "base/result.h"
#include "serve/front/backend.h"
#include "serve/front/tokens.h"

namespace partita::serve {

class PeerPool;
class SharedMemory;

struct GrpcOptions {
  std::string listen = "127.0.0.1:8001";  // HOST:PORT; port 0: the kernel chooses
  std::string tls_certificate = {}, tls_key = {};
  Tokens tokens = {};
  std::shared_ptr<OidcTokens> oidc = {};
  bool new_traces = false;                 // the same
  PeerPool* peers = nullptr;               // gateways of other nodes; null: nothing is handed over
  AccessLog* log = nullptr;                // lives longer than the door; null: none
  SharedMemory* memory = nullptr;          // likewise; where it listens on loopback
  std::size_t message_bytes = 256u << 20;  // of a request
  std::size_t memory_bytes = 1u << 30;     // of all requests that are on their way in
  // Calls that are open. Beyond these more are refused (RESOURCE_EXHAUSTED), and of one address
  // beyond 15 of 16 of all; where all are there, those whose message has not come end first.
  std::size_t calls_per_connection = 512;
  std::size_t calls = 8192;
  // Of a stream that are not answered, or whose answers are not on their way: then it is not read.
  std::size_t requests_of_stream = 128;
  // From a call's beginning to its whole message. Of a stream that has none under way: to the next
  // one. To an answer that is fetched.
  std::int64_t message_ns = 60'000'000'000;
  std::int64_t idle_ns = 75'000'000'000;     // of a connection without a call
};

class GrpcFront {
 public:
  // Listens, or says why it cannot, as Front::open(). Loop and backend outlive it.
  static Result<std::unique_ptr<GrpcFront>> open(Loop& loop, Backend& backend,
                                                 const GrpcOptions& options);
  // Ends calls that are open with UNAVAILABLE; to be destroyed on the loop's thread.
  ~GrpcFront();
  GrpcFront(const GrpcFront&) = delete;
  GrpcFront& operator=(const GrpcFront&) = delete;

  int port() const;
  // New calls are refused; open ones go on.
  void drain();

 private:
  struct Impl;
  explicit GrpcFront(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
