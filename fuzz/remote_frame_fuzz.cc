// Frames from the wire: the reader takes them in pieces of any size, never more than was sent, and
// whatever decodes as an operation, an answer or a notice encodes to the same bytes. First byte:
// the size of the pieces.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "wire/net/frames.h"
#include "wire/trace/describe.h"
#include "target.h"

namespace {

using partita::remote::Bytes;
using partita::remote::Channel;
using partita::remote::Direction;
using partita::remote::Nanos;

// The input as a stream that ends.
class InputChannel final : public Channel {
 public:
  InputChannel(Bytes bytes, std::size_t piece) : left_(bytes), piece_(piece) {}
  partita::Result<void> write(std::span<const Bytes>, Nanos) override { return {}; }
  partita::Result<std::size_t> read(std::span<std::byte> into, Nanos) override {
    const std::size_t size = std::min({into.size(), left_.size(), piece_});
    if (size > 0) std::memcpy(into.data(), left_.data(), size);
    left_ = left_.subspan(size);
    return size;
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override {}

 private:
  Bytes left_;
  std::size_t piece_;
};

template <class Fields>
void check_fields(Bytes body) {
  const auto value = partita::remote::decode<Fields>(body);
  if (!value) return;
  CHECK(within_limits(*value) && encoded_size(*value) == body.size());
  std::vector<std::byte> again(body.size());
  CHECK(encode(*value, again.data()) == again.data() + again.size());
  CHECK(std::ranges::equal(again, body));
}

// Under every operation, whatever the code says.
void check_body(Bytes body) {
  auto check = [&]<class Op>() {
    check_fields<Op>(body);
    check_fields<typename Op::Reply>(body);
  };
  for_each(partita::remote::ClientOperations{}, check);
  for_each(partita::remote::ServerNotices{}, check);
}

}  // namespace

FUZZ_TARGET(remote_frame) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data + 1, size - 1));
  InputChannel channel(bytes, data[0] == 0 ? bytes.size() + 1 : data[0]);
  partita::remote::FrameReader reader(channel);
  std::size_t used = 0;
  for (;;) {
    const bool buffered = reader.has_buffered();
    const auto frame = reader.next(Nanos(0));
    if (!frame) {
      CHECK(!frame.error().message.empty());
      break;
    }
    CHECK(is_legal(frame->header) && frame->body.size() == frame->header.body_bytes);
    CHECK(buffered || reader.received() > 0);
    CHECK(std::ranges::equal(frame->body, bytes.subspan(used + 24, frame->body.size())));
    used += 24 + frame->body.size();
    check_body(frame->body);
    for (const Direction direction : {Direction::up, Direction::down}) {
      const std::string words = describe(frame->header, frame->body, direction);
      CHECK(std::ranges::all_of(words, [](char c) { return c >= ' ' && c < 0x7f; }));
    }
    CHECK(reader.bulk_left() == frame->header.bulk_bytes);
    const std::uint64_t bulk = reader.bulk_left();
    if (!reader.drop_bulk(Nanos(0))) break;
    used += bulk;
    CHECK(used <= bytes.size());
  }
  CHECK(reader.received() <= bytes.size());
  return 0;
}
