#include "wire/net/frames.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace partita::remote {
namespace {

constexpr std::size_t kHeader = sizeof(FrameHeader);

tl::unexpected<Error> closed(const char* where) {
  return failed({ErrorCode::lost, where, "remote connection"});
}

}  // namespace

FrameWriter::FrameWriter(Channel& channel, Nanos patience)
    : channel_(channel), patience_(patience), buffer_(kGather) {}

Result<void> FrameWriter::over_limit(std::string_view operation) {
  return failed({ErrorCode::invalid_argument, "a text or a list of bytes is over its limit",
                 std::string(operation)});
}

Result<std::byte*> FrameWriter::reserve(unsigned code, std::uint32_t request, std::size_t body,
                                        std::uint64_t bulk) {
  if (body > kMaxBody || bulk > kMaxBulk) {
    return failed({ErrorCode::invalid_argument, "this frame is over its limit", "remote frame"});
  }
  if (used_ + kHeader + body > kGather) {
    TRY(flush());
    if (kHeader + body > buffer_.size()) buffer_.resize(kHeader + body);
  }
  const FrameHeader header{.body_bytes = static_cast<std::uint32_t>(body),
                           .code = static_cast<std::uint16_t>(code),
                           .request = request,
                           .bulk_bytes = bulk};
  std::memcpy(buffer_.data() + used_, &header, kHeader);
  std::byte* place = buffer_.data() + used_ + kHeader;
  used_ += kHeader + body;
  return place;
}

Result<void> FrameWriter::write_with(Bytes bulk) {
  const std::array<Bytes, 2> parts{Bytes(buffer_).first(used_), bulk};
  written_ += used_ + bulk.size();
  used_ = 0;
  return channel_.write(parts, patience_);
}

Result<void> FrameWriter::put_raw(const FrameHeader& header, Bytes body, Bytes bulk) {
  if (!is_legal(header) || header.body_bytes != body.size() || header.bulk_bytes != bulk.size()) {
    return failed(
        {ErrorCode::invalid_argument, "the header does not fit the frame", "remote frame"});
  }
  auto place = TRY(reserve(header.code, header.request, body.size(), bulk.size()));
  if (!body.empty()) std::memcpy(place, body.data(), body.size());
  return bulk.empty() ? Result<void>() : write_with(bulk);
}

Result<void> FrameWriter::flush() {
  if (used_ == 0) return {};
  return write_with({});
}

FrameReader::FrameReader(Channel& channel) : channel_(channel), buffer_(kReadAhead) {}

Result<Frame> FrameReader::next(Nanos patience) {
  CHECK(bulk_left_ == 0);
  for (;;) {
    const std::size_t have = end_ - begin_;
    std::size_t need = kHeader;
    if (have >= kHeader) {
      Frame frame;
      std::memcpy(&frame.header, buffer_.data() + begin_, kHeader);
      if (!is_legal(frame.header)) return bad_input("remote frame", "its header is illegal");
      need += frame.header.body_bytes;
      if (have >= need) {
        frame.body = Bytes(buffer_).subspan(begin_ + kHeader, frame.header.body_bytes);
        bulk_left_ = frame.header.bulk_bytes;
        begin_ += need;
        return frame;
      }
    }
    make_room(need);
    const auto size = TRY(channel_.read(std::span(buffer_).subspan(end_), patience));
    if (size == 0) {
      return closed(have == 0 ? "the other side closed the connection"
                              : "the other side closed the connection inside a frame");
    }
    end_ += size;
    received_ += size;
  }
}

void FrameReader::make_room(std::size_t need) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ + need > buffer_.size()) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (need > buffer_.size()) buffer_.resize(need);
}

Result<void> FrameReader::read_bulk(std::span<std::byte> into, Nanos patience) {
  CHECK(into.size() <= bulk_left_);
  taken_ = std::min(into.size(), end_ - begin_);
  if (taken_ > 0) std::memcpy(into.data(), buffer_.data() + begin_, taken_);
  begin_ += taken_;
  bulk_left_ -= taken_;
  while (taken_ < into.size()) {
    const auto size = TRY(channel_.read(into.subspan(taken_), patience));
    if (size == 0) return closed("the other side closed the connection inside a frame");
    taken_ += size;
    bulk_left_ -= size;
    received_ += size;
  }
  return {};
}

Result<void> FrameReader::drop_bulk(Nanos patience) {
  while (bulk_left_ > 0) {
    if (begin_ < end_) {
      const std::uint64_t here = std::min<std::uint64_t>(bulk_left_, end_ - begin_);
      begin_ += here;
      bulk_left_ -= here;
      continue;
    }
    begin_ = end_ = 0;
    const auto size = TRY(channel_.read(buffer_, patience));
    if (size == 0) return closed("the other side closed the connection inside a frame");
    end_ = size;
    received_ += size;
  }
  return {};
}

bool FrameReader::has_buffered() const {
  if (bulk_left_ > 0 || end_ - begin_ < kHeader) return false;
  FrameHeader header;
  std::memcpy(&header, buffer_.data() + begin_, kHeader);
  return !is_legal(header) || end_ - begin_ >= kHeader + header.body_bytes;
}

}  // namespace partita::remote
