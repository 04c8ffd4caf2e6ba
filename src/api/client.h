// Client: calls the API of an agent, on this machine or another. Blocking; a connection a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/calls.h"
#include "base/clock.h"
#include "base/result.h"

namespace partita::api {

// unix:/run/partita/api.sock, http://localhost:8123, https://node1:8123.
struct ServerPlace {
  std::string socket = {};  // a path; empty: url
  std::string url = {};
  bool operator==(const ServerPlace&) const = default;
};
Result<ServerPlace> parse_server_place(const std::string& context, std::string_view text);

struct ClientOptions {
  std::string token = {};                  // empty: none
  std::string ca_file = {};                // certificates to trust instead of the system's
  std::string certificate = {}, key = {};  // shown to the server; empty: none
  std::int64_t patience_ns = 150'000'000'000;
};

class Client {
 public:
  static Result<Client> to(const ServerPlace& place, ClientOptions options, Clock& clock);
  Client(Client&&) noexcept;
  ~Client();

  // The body of the answer. What the server refuses is an Error with its code, message and place;
  // environment when there is no answer. `part` stands for the {part} of the call's path, `query`
  // begins behind the '?'.
  Result<std::string> call(CallId id, const std::string& part = {}, const std::string& body = {},
                           const std::string& query = {}) const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A text as a part of a path or query.
std::string percent_encoded(std::string_view text);

}  // namespace partita::api
