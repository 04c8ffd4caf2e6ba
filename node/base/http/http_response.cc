#include "base/http/http_response.h"

#include "base/words.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace partita::serve {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text, int base) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Whether a list with commas has this word.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (same_word(trimmed(list.substr(0, comma)), word)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

constexpr std::uint64_t kMostBody = std::uint64_t{1} << 50;

}  // namespace

void HttpResponse::restart() { *this = keep_body_ ? HttpResponse(max_body_) : HttpResponse(); }

std::string_view HttpResponse::header(std::string_view name) const {
  std::string_view rest = headers_;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const std::size_t colon = line.find(':');
    if (same_word(line.substr(0, colon), name)) return trimmed(line.substr(colon + 1));
  }
  return {};
}

void HttpResponse::broke(const char* why) {
  state_ = State::broken;
  why_ = why;
}

std::size_t HttpResponse::take(std::span<const char> bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && (state_ == State::head || state_ == State::body)) {
    const std::span<const char> rest = bytes.subspan(used);
    switch (part_) {
      case Part::head:
      case Part::trailer:
        used += take_line(rest, kMaxResponseHead);
        break;
      case Part::size:
        if (const std::size_t chunk = take_chunk(rest); chunk > 0)
          used += chunk;
        else
          used += take_line(rest, kMaxChunkLine);
        break;
      case Part::after_chunk:
        used += take_line(rest, kMaxChunkLine);
        break;
      case Part::counted:
      case Part::chunk:
      case Part::until_end:
        used += take_body(rest);
        break;
    }
  }
  return used;
}

void HttpResponse::end() {
  if (state_ == State::body && part_ == Part::until_end)
    state_ = State::done;
  else if (state_ == State::head || state_ == State::body)
    broke("the connection ended amid a response");
}

// Bytes up to the end of a line; what is read of a line so far is in line_.
std::size_t HttpResponse::take_line(std::span<const char> bytes, std::size_t limit) {
  const auto newline = std::ranges::find(bytes, '\n');
  const auto count = static_cast<std::size_t>(newline - bytes.begin());
  const bool whole = newline != bytes.end();
  const bool counts = part_ == Part::head || part_ == Part::trailer;
  const std::size_t before = counts ? head_bytes_ : line_.size();
  if (before + count > limit) {
    broke("a head or a line of it is too long");
    return count;
  }
  if (counts) head_bytes_ += count + 1;
  std::string_view line(bytes.data(), count);
  if (!whole || !line_.empty()) line = line_.append(line);
  if (!whole) return count;
  if (line.ends_with('\r')) line.remove_suffix(1);
  line_done(line);
  line_.clear();
  return count + 1;
}

// A chunk that is there whole, in the form that all write: its bytes with size and line ends.
// 0: this is none, or none that fits.
std::size_t HttpResponse::take_chunk(std::span<const char> bytes) {
  const std::string_view text(bytes.data(), bytes.size());
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size, 16);
  const auto from = static_cast<std::size_t>(end - text.data()) + 2;
  if (!line_.empty() || error != std::errc() || size == 0 || size > text.size()) return 0;
  if (text.size() < from + size + 2 || text.substr(from - 2, 2) != "\r\n" ||
      text.substr(from + size, 2) != "\r\n" || (keep_body_ && seen_ + size > max_body_))
    return 0;
  if (keep_body_) {
    seen_ += size;
    body_.append(text, from, size);
  }
  return from + size + 2;
}

std::size_t HttpResponse::take_body(std::span<const char> bytes) {
  std::size_t count = bytes.size();
  if (part_ != Part::until_end)
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, left_));
  if (keep_body_) {
    seen_ += count;
    if (seen_ > max_body_) {
      broke("a body is too long");
      return count;
    }
    body_.append(bytes.data(), count);
  }
  if (part_ == Part::until_end) return count;
  left_ -= count;
  if (left_ > 0) return count;
  if (part_ == Part::counted)
    state_ = State::done;
  else
    part_ = Part::after_chunk;
  return count;
}

void HttpResponse::line_done(std::string_view line) {
  switch (part_) {
    case Part::head:
      if (status_ == 0) return status_line(line);
      return line.empty() ? head_ended() : header_line(line);
    case Part::size:
      return size_line(line);
    case Part::after_chunk:
      part_ = Part::size;
      return line.empty() ? void() : broke("a chunk is longer than it said");
    case Part::trailer:
      if (line.empty()) state_ = State::done;
      return;
    case Part::counted:
    case Part::until_end:
    case Part::chunk:
      return;
  }
}

void HttpResponse::status_line(std::string_view line) {
  constexpr std::string_view kVersion = "HTTP/1.";
  const bool fits = line.starts_with(kVersion) && line.size() >= 12 && line[8] == ' ' &&
                    (line.size() == 12 || line[12] == ' ');
  const auto status = fits ? number_in(line.substr(9, 3), 10) : std::nullopt;
  if (!status || *status < 100 || *status > 599) return broke("this is no HTTP/1.x");
  status_ = static_cast<int>(*status);
  keeps_alive_ = line[7] != '0';
}

void HttpResponse::header_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return broke("a header line has no colon");
  const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
  if (keep_body_) headers_.append(line).push_back('\n');
  if (same_word(name, "connection")) {
    if (lists(value, "close")) keeps_alive_ = false;
    if (lists(value, "keep-alive")) keeps_alive_ = true;
  } else if (same_word(name, "transfer-encoding")) {
    if (!same_word(value, "chunked")) return broke("a transfer encoding that is not known");
    chunked_ = true;
  } else if (same_word(name, "content-length")) {
    const auto length = number_in(value, 10);
    if (!length || *length > kMostBody || (counted_ && *length != left_))
      return broke("a content length that cannot be");
    if (keep_body_ && *length > max_body_) return broke("a body is too long");
    left_ = *length;
    counted_ = true;
  }
}

void HttpResponse::head_ended() {
  constexpr int kNoContent = 204, kNotModified = 304, kFirstFinal = 200;
  if (status_ < kFirstFinal) {  // 100 Continue: the response comes behind it
    const std::size_t read = head_bytes_;
    restart();
    head_bytes_ = read;
    return;
  }
  state_ = State::body;
  if (status_ == kNoContent || status_ == kNotModified) {
    state_ = State::done;
  } else if (chunked_) {
    part_ = Part::size;
  } else if (counted_) {
    part_ = Part::counted;
    if (left_ == 0) state_ = State::done;
  } else {
    part_ = Part::until_end;
    keeps_alive_ = false;
  }
}

void HttpResponse::size_line(std::string_view line) {
  const auto size = number_in(trimmed(line.substr(0, line.find(';'))), 16);
  if (!size || *size > kMostBody) return broke("a chunk without a size");
  if (keep_body_ && *size > max_body_) return broke("a body is too long");
  left_ = *size;
  part_ = *size == 0 ? Part::trailer : Part::chunk;
}

}  // namespace partita::serve
