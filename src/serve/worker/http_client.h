// A small HTTP/1.1 client for servers on this machine or near it: plain TCP, blocking with a
// deadline, one request at a time on a connection that is kept open. No TLS, no redirects.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "serve/worker/http_response.h"

namespace partita::serve {

struct Url {
  std::string host;  // without the brackets of IPv6
  int port = 80;
  std::string path;  // "" or "/..."
  bool operator==(const Url&) const = default;
};
// "http://host[:port][/path]"; bad_input for anything else, https included.
Result<Url> parse_url(const std::string& flag, const std::string& text);
std::string host_header(const Url& url);

class HttpConnection {
 public:
  // Deadlines are CLOCK_MONOTONIC, in nanoseconds; ErrorCode::timeout when one passes.
  static Result<HttpConnection> open(const Url& url, std::int64_t deadline);

  int fd() const { return fd_.get(); }
  Result<void> send(std::span<const std::string_view> pieces, std::int64_t deadline);
  // Feeds the reader what has come, waiting for it; `reader` may be done afterwards.
  Result<void> receive(HttpResponseReader& reader, std::int64_t deadline);

 private:
  explicit HttpConnection(Descriptor fd) : fd_(std::move(fd)) {}
  Descriptor fd_;
};

// Requests over one connection that is opened when needed and kept while the server likes.
class HttpClient {
 public:
  HttpClient(Url url, std::int64_t timeout_ns) : url_(std::move(url)), timeout_ns_(timeout_ns) {}
  const Url& url() const { return url_; }
  // Sends the pieces (head and body) and reads the whole answer. A kept connection that turns out
  // to be closed is opened anew, once.
  Result<HttpResponseReader> ask(std::span<const std::string_view> pieces, std::uint64_t max_body);

 private:
  Result<HttpResponseReader> ask_once(std::span<const std::string_view> pieces,
                                      std::uint64_t max_body, std::int64_t deadline);

  Url url_;
  std::int64_t timeout_ns_;
  std::optional<HttpConnection> connection_;
};

}  // namespace partita::serve
