// Frames over a Channel. FrameWriter gathers small frames and writes them together (a launch is a
// memcpy of about 150 bytes); FrameReader hands out one frame after another with its body in place
// and its bulk still in the channel, to be read straight to where it belongs.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "wire/net/channel.h"
#include "wire/frame.h"

namespace partita::remote {

inline constexpr std::size_t kGather = 64 * 1024;  // written together at the latest
inline constexpr std::size_t kReadAhead =
    64 * 1024;  // the reader's buffer; larger for a large body

// Thread rule: one call at a time.
class FrameWriter {
 public:
  FrameWriter(Channel& channel, Nanos patience);
  // Appends a frame; writes when kGather bytes are gathered or bulk comes with it. Fields must be
  // within their limits (a caller's bug otherwise: invalid_argument).
  template <class Op>
  Result<void> put(const Op& operation, std::uint32_t request = 0, Bytes bulk = {}) {
    if (!within_limits(operation)) return over_limit(Op::kSpec.name);
    const std::size_t body = encoded_size(operation);
    auto place = TRY(reserve(Op::kSpec.code, request, body, bulk.size()));
    encode(operation, place);
    return bulk.empty() ? Result<void>() : write_with(bulk);
  }
  // An answer to `request`.
  template <class Op>
  Result<void> answer(std::uint32_t request, Outcome outcome, const typename Op::Reply& reply,
                      Bytes bulk = {}) {
    if (!within_limits(reply)) return over_limit(Op::kSpec.name);
    const std::size_t body = encoded_size(outcome) + encoded_size(reply);
    auto place = TRY(reserve(Op::kSpec.code | kAnswer, request, body, bulk.size()));
    encode(reply, encode(outcome, place));
    return bulk.empty() ? Result<void>() : write_with(bulk);
  }
  // A frame that is there already (header and body), as graphs and replays have it.
  Result<void> put_raw(const FrameHeader& header, Bytes body, Bytes bulk = {});
  // Writes what is gathered.
  Result<void> flush();
  std::size_t gathered() const { return used_; }
  std::uint64_t written() const { return written_; }  // bytes so far

 private:
  static Result<void> over_limit(std::string_view operation);
  // Room for a body behind a header that is written here.
  Result<std::byte*> reserve(unsigned code, std::uint32_t request, std::size_t body,
                             std::uint64_t bulk);
  Result<void> write_with(Bytes bulk);

  Channel& channel_;
  Nanos patience_;
  std::size_t used_ = 0;
  std::uint64_t written_ = 0;
  std::vector<std::byte> buffer_;
};

struct Frame {
  FrameHeader header = {};
  Bytes body = {};  // until the next call on the reader
};

// Thread rule: one call at a time.
class FrameReader {
 public:
  explicit FrameReader(Channel& channel);
  // The next frame; bad_input when the header is illegal (the connection is of no use then), lost
  // at the end of the stream, timeout as Channel::read (what has arrived of a frame is kept, call
  // again). The bulk of the frame before must have been read or dropped (a CHECK).
  Result<Frame> next(Nanos patience);
  // The next bytes of the frame's bulk: fills `into` whole, or an Error (timeout keeps what came:
  // `taken` says how much of `into` is filled, go on with the rest).
  Result<void> read_bulk(std::span<std::byte> into, Nanos patience);
  Result<void> drop_bulk(Nanos patience);
  std::uint64_t bulk_left() const { return bulk_left_; }
  std::size_t taken() const { return taken_; }
  // Whether next() can answer without reading the channel.
  bool has_buffered() const;
  std::uint64_t received() const { return received_; }

 private:
  // The unread bytes move to where `need` of them fit.
  void make_room(std::size_t need);

  Channel& channel_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::uint64_t bulk_left_ = 0;
  std::size_t taken_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace partita::remote
