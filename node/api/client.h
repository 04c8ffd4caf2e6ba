// Client: calls the API of an agent, on this machine or another. Blocking; a connection a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/event_reader.h"
#include "api/operations.h"
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
  // `lost` when nobody is there, environment when there is no answer. `part` stands for the {part}
  // of the call's path, `query` begins behind the '?'.
  Result<std::string> call(std::string_view operation, const std::string& part = {},
                           const std::string& body = {}, const std::string& query = {}) const;

  // The stream of events until `take` says false or `stopped`, which waits that long at most, says
  // true. A stream that breaks is opened again after 0.5 s, 1 s ... 15 s (`lost` is told), behind
  // the last event; one that never was, or is refused, is an error.
  struct Following {
    std::function<bool(const StreamEvent& event)> take;
    std::function<bool(std::int64_t ns)> stopped;
    std::function<void(const Error& why, std::int64_t wait_ns)> lost;
  };
  Result<void> follow(const Following& following) const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::api
