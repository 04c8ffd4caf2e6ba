// Outlet: what goes out on a connection: an answer, its head and text and spans one behind the
// other, or a stream, piece by piece, in chunks or as it is. Loop thread only.
// reply_head(): the head of an answer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/door/exchange.h"
#include "base/door/transport.h"

namespace partita::serve {

// How an answer goes over its connection.
struct Framing {
  std::string_view date = {};  // a header with its line end
  std::string_view more_headers = {};
  bool keep_alive = true, http10 = false;
  bool chunked = false;     // of a stream
  bool with_length = true;  // it is known how long the body is
};
std::string reply_head(const Reply& reply, const Framing& framing);

class Outlet {
 public:
  enum class Sent : std::uint8_t { all, blocked, broken };

  explicit Outlet(Transport& transport) : transport_(transport) {}

  void ready() { blocked_ = false; }
  bool blocked() const { return blocked_; }
  std::uint64_t bytes() const { return bytes_; }  // written since clear()
  // Nothing is left to be written, and none was; long text is not kept.
  void clear();

  // An answer: its text, then the spans, which stay where they are until it is written. Returns
  // its length.
  std::uint64_t begin(std::string text, std::span<const iovec> spans);
  Sent send();

  // A stream: what is put waits, and is written from its front.
  void put(std::string_view text) { text_ += text; }
  void put_piece(std::string_view piece, bool chunked);
  // Of a stream, also once it has ended.
  std::size_t waiting() const { return text_.size() - std::min(gone_, text_.size()); }
  Sent send_some();
  // Its end, with which all that waits becomes an answer. Returns the length.
  std::uint64_t end_stream(bool chunked);

 private:
  Transport& transport_;
  std::string text_ = {};
  std::vector<iovec> out_ = {};
  std::size_t at_ = 0;    // first of out_ that is not written
  std::size_t gone_ = 0;  // bytes that are
  std::uint64_t bytes_ = 0;
  bool blocked_ = false;
};

}  // namespace partita::serve
