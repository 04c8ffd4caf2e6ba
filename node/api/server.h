// Server: the API of a running agent, on a thread of its own: REST with JSON, server-sent events,
// metrics, the web page. Calls, roles and limits: docs/api.md; the table is operations.h.
//   auto server = Server::start(backend, options);  (*server)->addresses();  (*server)->stop();
// The backend outlives the server and is called from its thread; after stop() it is not called any
// more, and answers that it still gives are dropped.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/backend.h"
#include "base/result.h"

namespace partita::api {

struct ServerLimits {
  std::size_t connections = 4096;
  std::size_t body_bytes = 4u << 20;       // of one request
  std::size_t bodies_bytes = 64u << 20;    // of all requests at once
  std::size_t streams = 256;               // of server-sent events at once
  std::size_t stream_bytes = 16u << 20;    // that a slow reader of events may leave lying
  int calls_per_second = 50, burst = 200;  // of one client: a user, an address
  int heartbeat_s = 15;                    // between events when there is no news
  int answer_s = 120;                      // the agent has for one answer
  std::int64_t head_ns = 10'000'000'000, idle_ns = 75'000'000'000;
};

struct ServerOptions {
  std::string socket = "/run/partita/api.sock";  // a Unix socket, mode 0660; empty: none
  std::optional<unsigned> group = {};  // gid of its group, whose members have the role operator
  std::string listen = {};  // HOST:PORT; empty: none. Others' machines only with TLS and tokens or
                            // client certificates
  std::string tokens_file = {};  // lines NAME:ROLE:SHA256; reread when it changes
  std::string tls_certificate = {}, tls_key = {};
  std::string client_ca = {};           // certificates signed by it come in; needs client_roles
  std::string client_roles = {};        // lines CN:ROLE; reread when it changes
  std::string oidc = {};                // settings of an OpenID provider (base/oidc/oidc.h)
  std::vector<std::string> hosts = {};  // further names by which browsers may call this server
  std::string access_log = {};          // a file, a line of JSON per call; empty: none
  std::string version = {};             // of the program
  ServerLimits limits = {};
};

class Server {
 public:
  // Listens, or says why not: bad_input for a file or address, environment for what the kernel
  // refuses. A socket file that nobody listens on is replaced.
  static Result<std::unique_ptr<Server>> start(Backend& backend, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens: "unix:/run/partita/api.sock", "http://127.0.0.1:8123".
  std::vector<std::string> addresses() const;
  void stop();  // ends the thread and its connections; does nothing the second time

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::api
