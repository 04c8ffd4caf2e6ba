#include "serve/worker/http_response.h"

#include <algorithm>
#include <utility>

#include "base/parse_number.h"
#include "base/unicode.h"

namespace partita::serve {
namespace {

constexpr std::size_t kMaxLine = 4096;  // of chunk sizes and trailers
constexpr std::string_view kContext = "the server's answer";

tl::unexpected<Error> no_http(std::string message) {
  return bad_input(std::string(kContext), std::move(message));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

Result<void> HttpResponseReader::feed(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::done) {
    Result<std::string_view> rest = state_ == State::head ? feed_head(bytes) : feed_body(bytes);
    if (!rest) return failed(rest.error());
    bytes = *rest;
  }
  if (!bytes.empty()) keep_alive_ = false;  // more than was asked for
  return {};
}

Result<void> HttpResponseReader::end_of_stream() {
  keep_alive_ = false;
  if (state_ == State::until_close) state_ = State::done;
  if (state_ != State::done) return no_http("it ends too early");
  return {};
}

std::string_view HttpResponseReader::header(std::string_view name) const {
  std::string_view rest = head_;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t colon = line.find(':');
    if (colon != line.npos && lower_case(line.substr(0, colon)) == name)
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

Result<std::string_view> HttpResponseReader::feed_head(std::string_view bytes) {
  const std::size_t before = head_.size();
  head_ += bytes.substr(0, kMaxHeadBytes + 1 - before);
  const std::size_t from = before > 3 ? before - 3 : 0;
  const std::size_t end = head_.find("\r\n\r\n", from);
  if (end == head_.npos) {
    if (head_.size() > kMaxHeadBytes) return no_http("its head is too long");
    return std::string_view();
  }
  const std::size_t used = end + 4 - before;
  head_.resize(end + 2);
  if (auto read = read_head(); !read) return failed(read.error());
  return bytes.substr(used);
}

Result<void> HttpResponseReader::read_head() {
  const std::string_view head = head_;
  const bool known = head.starts_with("HTTP/1.1 ") || head.starts_with("HTTP/1.0 ");
  const auto status = head.size() < 12 ? std::nullopt : parse_number<int>(head.substr(9, 3));
  if (!known || !status || *status < 100 || *status > 599) return no_http("this is no HTTP/1.1");
  if (*status < 200) {  // an interim answer, the real one follows
    head_.clear();
    return {};
  }
  status_ = *status;
  keep_alive_ = head.starts_with("HTTP/1.1") && lower_case(header("connection")) != "close";
  return read_framing();
}

Result<void> HttpResponseReader::read_framing() {
  if (status_ == 204 || status_ == 304) {
    state_ = State::done;
  } else if (lower_case(header("transfer-encoding")) == "chunked") {
    state_ = State::chunk_size;
  } else if (!header("transfer-encoding").empty()) {
    return no_http("its transfer encoding is not known here");
  } else if (const std::string_view text = header("content-length"); !text.empty()) {
    const auto length = parse_number<std::uint64_t>(text);
    if (!length) return no_http("its content length is no number");
    if (*length > max_body_) return no_http("its body is too long");
    left_ = *length;
    state_ = left_ == 0 ? State::done : State::length;
  } else {
    state_ = State::until_close;
    keep_alive_ = false;
  }
  return {};
}

Result<void> HttpResponseReader::keep(std::string_view bytes) {
  seen_ += bytes.size();
  if (seen_ > max_body_) return no_http("its body is too long");
  body_ += bytes;
  return {};
}

// Takes what belongs to the current state off `bytes`; the rest.
Result<std::string_view> HttpResponseReader::feed_body(std::string_view bytes) {
  if (state_ == State::until_close) {
    if (auto kept = keep(bytes); !kept) return failed(kept.error());
    return std::string_view();
  }
  if (state_ != State::length && state_ != State::chunk) return feed_line(bytes);
  const std::string_view piece = bytes.substr(0, std::min<std::uint64_t>(left_, bytes.size()));
  if (auto kept = keep(piece); !kept) return failed(kept.error());
  left_ -= piece.size();
  if (left_ == 0) state_ = state_ == State::length ? State::done : State::chunk_end;
  return bytes.substr(piece.size());
}

Result<std::string_view> HttpResponseReader::feed_line(std::string_view bytes) {
  const std::size_t end = bytes.find('\n');
  line_ += bytes.substr(0, std::min(end, kMaxLine + 1));
  if (line_.size() > kMaxLine) return no_http("a line between its chunks is too long");
  if (end == bytes.npos) return std::string_view();
  if (auto read = line_ended(); !read) return failed(read.error());
  line_.clear();
  return bytes.substr(end + 1);
}

Result<void> HttpResponseReader::line_ended() {
  const std::string_view line = trimmed(line_);
  if (state_ == State::chunk_end) {
    if (!line.empty()) return no_http("a chunk is longer than it says");
    state_ = State::chunk_size;
  } else if (state_ == State::chunk_size) {
    const std::string_view digits = trimmed(line.substr(0, line.find(';')));
    const auto size = parse_number<std::uint64_t>(digits, 16);
    if (!size) return no_http("a chunk's size is no number");
    if (*size > max_body_) return no_http("its body is too long");
    left_ = *size;
    state_ = left_ == 0 ? State::trailer : State::chunk;
  } else if (line.empty()) {  // after the trailers
    state_ = State::done;
  }
  return {};
}

}  // namespace partita::serve
