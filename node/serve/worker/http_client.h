// A small HTTP/1.1 client for servers on this machine or near it: plain TCP, blocking with a
// deadline, one request at a time on a connection that is kept open. No TLS, no redirects.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"
#include "base/url.h"
#include "base/http/http_response.h"

namespace partita::serve {

// A server that this client can speak to, with the prefix of its paths: no https.
Result<Url> parse_server_url(const std::string& flag, const std::string& text);

class HttpConnection {
 public:
  // Deadlines are CLOCK_MONOTONIC, in nanoseconds; ErrorCode::timeout when one passes.
  static Result<HttpConnection> open(const Url& url, std::int64_t deadline);

  int fd() const { return fd_.get(); }
  Result<void> send(std::span<const std::string_view> pieces, std::int64_t deadline);
  // Feeds the reader what has come, waiting for it; `reader` may be done afterwards.
  Result<void> receive(HttpResponse& reader, std::int64_t deadline);
  bool spoilt() const { return spoilt_; }  // more came than was asked for

 private:
  explicit HttpConnection(Descriptor fd) : fd_(std::move(fd)) {}
  Result<void> pass_on(HttpResponse& reader, std::span<const char> bytes);

  Descriptor fd_;
  bool spoilt_ = false;
};

// Requests over one connection that is opened when needed and kept while the server likes.
class HttpClient {
 public:
  HttpClient(Url url, std::int64_t timeout_ns) : url_(std::move(url)), timeout_ns_(timeout_ns) {}
  const Url& url() const { return url_; }
  // Sends the pieces (head and body) and reads the whole answer. A kept connection that turns out
  // to be closed is opened anew, once.
  Result<HttpResponse> ask(std::span<const std::string_view> pieces, std::uint64_t max_body);

 private:
  Result<HttpResponse> ask_once(std::span<const std::string_view> pieces, std::uint64_t max_body,
                                std::int64_t deadline);

  Url url_;
  std::int64_t timeout_ns_;
  std::optional<HttpConnection> connection_;
};

}  // namespace partita::serve
