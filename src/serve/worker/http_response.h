// HttpResponseReader: an HTTP/1.1 response read piece by piece as bytes arrive: bodies of known
// length, chunked, or until the end of the stream. Pure; hostile servers get an Error, never memory
// beyond the limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace partita::serve {

inline constexpr std::size_t kMaxHeadBytes = 65'536;

class HttpResponseReader {
 public:
  // Bodies above `max_body` are refused; what take_body() took away counts, too.
  explicit HttpResponseReader(std::uint64_t max_body) : max_body_(max_body) {}

  Result<void> feed(std::string_view bytes);
  // The server closed the connection: the end of a body that says no length, else an Error.
  Result<void> end_of_stream();

  bool head_done() const { return state_ != State::head; }
  bool done() const { return state_ == State::done; }
  int status() const { return status_; }
  // The value of a header, by its name in small letters; empty where there is none.
  std::string_view header(std::string_view name) const;
  bool keep_alive() const { return keep_alive_; }  // the connection may be used again
  const std::string& body() const { return body_; }
  std::string take_body() { return std::exchange(body_, {}); }

 private:
  enum class State { head, length, chunk_size, chunk, chunk_end, trailer, until_close, done };

  Result<std::string_view> feed_head(std::string_view bytes);
  Result<void> read_head();
  Result<void> read_framing();
  Result<std::string_view> feed_body(std::string_view bytes);
  Result<std::string_view> feed_line(std::string_view bytes);
  Result<void> line_ended();
  Result<void> keep(std::string_view bytes);

  std::uint64_t max_body_;
  State state_ = State::head;
  std::string head_, line_, body_;
  int status_ = 0;
  bool keep_alive_ = true;
  std::uint64_t left_ = 0, seen_ = 0;
};

}  // namespace partita::serve
