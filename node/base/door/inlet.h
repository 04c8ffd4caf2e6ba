// Inlet: what comes in on a connection. Bytes go from the transport to where they belong, or
// through a buffer that is held only while something is to lie in it; the body of a request ends
// where its length or its chunks say. Whoever owns it looks at closed() when nothing came.
// Loop thread only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/door/chunked_body.h"
#include "base/door/http_head.h"
#include "base/door/transport.h"

namespace partita::serve {

struct HeadBuffer {
  std::array<char, kMaxHeadBytes> bytes;
  std::size_t begin = 0, end = 0;
};

// Buffers that no connection of a door holds.
class HeadBuffers {
 public:
  std::unique_ptr<HeadBuffer> take();
  void give(std::unique_ptr<HeadBuffer> buffer);

 private:
  std::vector<std::unique_ptr<HeadBuffer>> spare_ = {};
};

inline constexpr std::size_t kVectors = 64;            // of a read or write
inline constexpr std::uint64_t kDrainBytes = 262'144;  // an unwanted body up to this is read
inline constexpr std::uint64_t kUnknownRest = kDrainBytes + 1;  // nobody knows how much follows

// Goes `bytes` forward in vectors of which `at` is the first that is not done.
void forward(std::vector<iovec>& vectors, std::size_t& at, std::size_t bytes);
// The next of them that one call takes.
std::span<const iovec> some(const std::vector<iovec>& vectors, std::size_t at);

class Inlet {
 public:
  Inlet(Transport& transport, HeadBuffers& buffers) : transport_(transport), buffers_(buffers) {}
  ~Inlet() { give_back(); }
  Inlet(const Inlet&) = delete;
  Inlet& operator=(const Inlet&) = delete;

  void ready() { readable_ = true; }
  bool readable() const { return readable_ || transport_.holds_input(); }
  bool wants_write() const { return wants_write_; }  // TLS: it goes on when writable
  bool closed() const { return closed_; }            // by the other side

  // ---- through the buffer
  std::string_view text() const;
  void skip(std::size_t bytes) { buffer_->begin += bytes; }
  // Whether something came. A full buffer pauses it: the rest stays in the kernel.
  bool fill();
  bool paused() const { return paused_; }
  bool holds_buffer() const { return buffer_ != nullptr; }
  void give_back() { buffers_.give(std::move(buffer_)); }

  // ---- the body of a request
  // Behind what was skipped; `chunked`: it says itself where it ends, and `length` is what counts
  // as left until then.
  void begin_body(std::uint64_t length, bool chunked);
  std::uint64_t left() const { return left_; }  // not read yet
  std::uint64_t came() const { return came_; }
  const std::optional<ChunkedBody>& chunks() const { return chunks_; }
  bool body_ended() const { return chunks_ ? chunks_->ended() : left_ == 0; }
  // What lies in the buffer of it, as far as there is room.
  std::size_t take(std::span<char> into);
  // Reads it to where it belongs; a chunked one to the buffer, from where it is to be taken. False
  // when nothing came; `got`: what is in its place.
  bool read(std::span<const iovec> into, std::size_t& got);
  // Its rest is not wanted; `all`: nor what follows it. False when nothing came.
  bool drop(bool all);
  std::uint64_t dropped() const { return dropped_; }
  void end_body();  // what comes now is something else

 private:
  bool move(std::span<const iovec> into, std::size_t& got);

  Transport& transport_;
  HeadBuffers& buffers_;
  std::unique_ptr<HeadBuffer> buffer_ = {};
  std::optional<ChunkedBody> chunks_ = {};
  std::uint64_t left_ = 0, came_ = 0, dropped_ = 0;
  bool readable_ = false, wants_write_ = false, paused_ = false, closed_ = false;
};

}  // namespace partita::serve
