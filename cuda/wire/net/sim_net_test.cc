#include "wire/net/testing/sim_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/test_rounds.h"
#include "wire/net/frames.h"

namespace partita::remote {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Answers every frame with its body as bulk, when `work` of virtual time has gone by.
class EchoServer {
 public:
  EchoServer(SimNet& net, Nanos work) : net_(net), work_(work) {
    listener_ = std::move(*net.listen("here"));
    net.set_server([this] { step(); });
  }
  bool lost() const { return lost_; }

 private:
  void step() {
    if (!channel_) {
      auto accepted = listener_->accept(Nanos(0));
      if (!accepted) return;
      channel_ = std::move(accepted->channel);
      reader_ = std::make_unique<FrameReader>(*channel_);
    }
    while (!lost_) {
      const auto frame = reader_->next(Nanos(0));
      if (!frame) {
        lost_ = frame.error().code != ErrorCode::timeout;
        return;
      }
      net_.advance(work_);
      FrameWriter writer(*channel_, Nanos(0));
      lost_ =
          !writer.answer<CopyOut>(frame->header.request, {}, {}, frame->body) || !writer.flush();
    }
  }

  SimNet& net_;
  Nanos work_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Channel> channel_;
  std::unique_ptr<FrameReader> reader_;
  bool lost_ = false;
};

struct History {
  int answers = 0;
  Nanos took{};
  std::uint64_t waits = 0;
  ErrorCode end = ErrorCode::infeasible;  // none
  bool operator==(const History&) const = default;
};

// `count` calls of `bytes` each, one after the other.
History call(SimOptions options, int count, std::size_t bytes, Nanos work) {
  SimNet net(options);
  EchoServer server(net, work);
  History history;
  auto channel = net.connect("here", Nanos(0));
  FrameWriter writer(**channel, seconds(10));
  FrameReader reader(**channel);
  std::vector<std::byte> body(bytes);
  Rng rng(options.seed);
  for (auto& byte : body) byte = static_cast<std::byte>(rng.next());
  for (int i = 0; i < count; ++i) {
    auto done = writer.put_raw({.body_bytes = static_cast<std::uint32_t>(bytes),
                                .code = 5,
                                .request = static_cast<std::uint32_t>(i)},
                               body);
    if (done) done = writer.flush();
    const auto frame = done ? reader.next(seconds(10)) : Result<Frame>(failed(done.error()));
    std::vector<std::byte> bulk(bytes);
    if (frame) {
      EXPECT_EQ(frame->header.request, static_cast<std::uint32_t>(i));
      EXPECT_EQ(reader.bulk_left(), bytes);
      done = reader.read_bulk(bulk, seconds(10));
    }
    if (!frame || !done) {
      history.end = frame ? done.error().code : frame.error().code;
      break;
    }
    EXPECT_TRUE(bulk == body);
    ++history.answers;
  }
  history.took = net.now();
  history.waits = net.waits();
  return history;
}

TEST(SimNet, TimeIsDelayAndBytesOverBandwidth) {
  SimOptions options;
  options.up = {.delay = microseconds(20), .bytes_per_nano = 0.5};
  options.down = {.delay = microseconds(30), .bytes_per_nano = 0.25};
  const History history = call(options, 10, 1000, microseconds(7));
  // Up: header 24 and 1000 bytes; down: header 24, outcome 8, 1000 bytes of bulk.
  const Nanos one = microseconds(20 + 30 + 7) + Nanos(1024 * 2) + Nanos(1032 * 4);
  EXPECT_EQ(history.answers, 10);
  EXPECT_EQ(history.took, 10 * one);
  EXPECT_EQ(history.waits, 20u);  // for the answer, and for its bulk behind it
}

TEST(SimNet, AnyFragmentsGiveTheSameAnswersAndTheSameSeedTheSameHistory) {
  for (int seed = 0; seed < test_rounds(500); ++seed) {
    const SimOptions options = random_network(static_cast<std::uint64_t>(seed), false);
    const History history =
        call(options, 20, 1 + 97 * static_cast<std::size_t>(seed % 50), microseconds(1));
    ASSERT_EQ(history.answers, 20) << seed;
    if (seed % 10 == 0) {
      EXPECT_EQ(history,
                call(options, 20, 1 + 97 * static_cast<std::size_t>(seed % 50), microseconds(1)));
    }
  }
}

TEST(SimNet, CutAtAnyByteIsNoticedByBothAtOnce) {
  for (std::uint64_t byte = 0; byte < 400; ++byte) {
    SimOptions options;
    options.up.delay = options.down.delay = microseconds(10);
    (byte % 2 == 0 ? options.up : options.down).cut_after = byte;
    const History history = call(options, 100, 60, Nanos(0));
    EXPECT_EQ(history.end, ErrorCode::lost) << byte;
    const std::uint64_t frame = byte % 2 == 0 ? 24 + 60 : 24 + 8 + 60;
    EXPECT_EQ(static_cast<std::uint64_t>(history.answers), byte / frame) << byte;
    EXPECT_LE(history.took, (history.answers + 2) * microseconds(20));
  }
}

TEST(SimNet, FaultsEndInAnswersLossOrTimeoutNeverInAHang) {
  std::array<int, 3> ends{};
  for (int seed = 0; seed < test_rounds(2000); ++seed) {
    const History history =
        call(random_network(static_cast<std::uint64_t>(seed), true), 30, 1000, microseconds(3));
    if (history.answers == 30) {
      ++ends[0];
    } else if (history.end == ErrorCode::lost) {
      ++ends[1];
    } else {
      ASSERT_EQ(history.end, ErrorCode::timeout) << seed;
      ++ends[2];
    }
    ASSERT_LE(history.took, seconds(200)) << seed;
  }
  EXPECT_TRUE(std::ranges::all_of(ends, [](int count) { return count > 0; }));
}

TEST(SimNet, SilentServerIsATimeoutAtItsTime) {
  SimNet net({});
  auto channel = net.connect("here", Nanos(0));
  std::array<std::byte, 8> into{};
  EXPECT_EQ((*channel)->read(into, milliseconds(250)).error().code, ErrorCode::timeout);
  EXPECT_EQ(net.now(), milliseconds(250));
  const std::vector<std::byte> much(5 << 20);
  const std::array<Bytes, 1> parts{much};
  EXPECT_EQ((*channel)->write(parts, milliseconds(50)).error().code, ErrorCode::timeout);
  EXPECT_EQ(net.now(), milliseconds(300));
}

TEST(SimNet, ServerIsWokenWhenItAsks) {
  SimNet net({});
  auto listener = net.listen("here");
  auto channel = net.connect("here", Nanos(0));
  auto accepted = (*listener)->accept(Nanos(0));
  bool asked = false, sent = false;
  net.set_server([&] {
    if (!std::exchange(asked, true)) net.wake_at(milliseconds(3));
    if (net.now() != milliseconds(3) || std::exchange(sent, true)) return;
    const std::array<std::byte, 1> byte{std::byte{1}};
    const std::array<Bytes, 1> parts{byte};
    EXPECT_TRUE(accepted->channel->write(parts, Nanos(0)));
  });
  std::array<std::byte, 8> into{};
  EXPECT_EQ((*channel)->read(into, seconds(1)).value(), 1u);
  EXPECT_EQ(net.now(), milliseconds(3));
  accepted->channel.reset();
  EXPECT_EQ((*channel)->read(into, seconds(1)).value(), 0u);
}

}  // namespace
}  // namespace partita::remote
