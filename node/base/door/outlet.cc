#include "base/door/outlet.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/door/inlet.h"

namespace partita::serve {
namespace {

struct Reason {
  int status;
  std::string_view words;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {202, "Accepted"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

std::string_view reason_of(int status) {
  const auto found = std::ranges::find(kReasons, status, &Reason::status);
  return found == std::end(kReasons) ? "Status" : found->words;
}

}  // namespace

std::string reply_head(const Reply& reply, const Framing& framing) {
  std::size_t length = reply.text.size();
  for (const iovec& span : reply.spans) length += span.iov_len;
  std::string out;
  out.reserve(256 + reply.text.size());
  out += "HTTP/1.1 ";
  out += std::to_string(reply.status);
  out += ' ';
  out += reason_of(reply.status);
  out += "\r\n";
  out += framing.date;
  const bool bodiless = reply.status == 204 || reply.status == 304;
  if (length > 0 || !framing.with_length) {
    out += "Content-Type: ";
    out += reply.content_type;
    out += "\r\n";
  }
  if (framing.with_length && !bodiless) {
    out += "Content-Length: ";
    out += std::to_string(length);
    out += "\r\n";
  } else if (framing.chunked && !bodiless) {
    out += "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n";
  }
  out += reply.headers;
  out += framing.more_headers;
  if (!framing.keep_alive) out += "Connection: close\r\n";
  if (framing.keep_alive && framing.http10) out += "Connection: keep-alive\r\n";
  out += "\r\n";
  return out;
}

void Outlet::clear() {
  constexpr std::size_t kKept = 16'384;
  if (text_.capacity() > kKept)
    std::string().swap(text_);
  else
    text_.clear();
  out_.clear();
  at_ = gone_ = 0;
  bytes_ = 0;
}

std::uint64_t Outlet::begin(std::string text, std::span<const iovec> spans) {
  text_ = std::move(text);
  out_.clear();
  at_ = gone_ = 0;
  if (!text_.empty()) out_.push_back({text_.data(), text_.size()});
  std::uint64_t length = text_.size();
  for (const iovec& span : spans) {
    if (span.iov_len > 0) out_.push_back(span);
    length += span.iov_len;
  }
  return length;
}

Outlet::Sent Outlet::send() {
  if (blocked_) return Sent::blocked;
  while (at_ < out_.size()) {
    const Transport::Moved moved = transport_.write(some(out_, at_));
    if (moved.ended) return Sent::broken;
    if (moved.blocked) {
      blocked_ = true;
      return Sent::blocked;
    }
    bytes_ += moved.bytes;
    gone_ += moved.bytes;
    forward(out_, at_, moved.bytes);
  }
  return Sent::all;
}

void Outlet::put_piece(std::string_view piece, bool chunked) {
  if (piece.empty()) return;  // an empty chunk would be the end
  if (chunked) {
    char head[20];
    char* const end = std::to_chars(std::begin(head), std::end(head), piece.size(), 16).ptr;
    end[0] = '\r';
    end[1] = '\n';
    text_.append(head, static_cast<std::size_t>(end + 2 - head));
  }
  text_.append(piece);
  if (chunked) text_.append("\r\n", 2);
}

Outlet::Sent Outlet::send_some() {
  if (waiting() == 0) return Sent::all;
  if (blocked_) return Sent::blocked;
  const iovec all{text_.data() + gone_, waiting()};
  const Transport::Moved moved = transport_.write({&all, 1});
  if (moved.ended) return Sent::broken;
  bytes_ += moved.bytes;
  gone_ += moved.bytes;
  blocked_ = waiting() > 0;
  if (gone_ > text_.size() / 2) text_.erase(0, std::exchange(gone_, 0));
  return blocked_ ? Sent::blocked : Sent::all;
}

std::uint64_t Outlet::end_stream(bool chunked) {
  text_.erase(0, gone_);
  if (chunked) text_ += "0\r\n\r\n";
  return begin(std::move(text_), {});
}

}  // namespace partita::serve
