#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "base/rng.h"
#include "base/source_text.h"
#include "base/test_rounds.h"
#include "wire/net/frames.h"
#include "wire/net/socket_channel.h"
#include "wire/trace/recording_proxy.h"
#include "wire/trace/replay.h"
#include "wire/trace/trace_stats.h"

namespace partita::remote {
namespace {

constexpr Nanos kSoon = std::chrono::seconds(20);

class TraceFolder {
 public:
  TraceFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "partita-trace-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TraceFolder() { std::filesystem::remove_all(path_); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::string text_of(const std::string& file) {
  auto text = RealFiles().read(file);
  EXPECT_TRUE(text);
  return text.value_or("");
}

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// --- words ---------------------------------------------------------------------------------

template <class Op>
std::string described(const Op& operation, std::uint32_t request = 0, std::uint64_t bulk = 0) {
  std::vector<std::byte> body(encoded_size(operation));
  encode(operation, body.data());
  return describe({.body_bytes = static_cast<std::uint32_t>(body.size()),
                   .code = Op::kSpec.code,
                   .request = request,
                   .bulk_bytes = bulk},
                  body, Direction::up);
}

TEST(Describe, FieldsOfEveryKind) {
  const std::array<std::byte, 3> parameters{std::byte{1}, std::byte{0xff}, std::byte{0}};
  EXPECT_EQ(described(Launch{.stream = {3},
                             .kernel = {9},
                             .grid = {10, 2, 1},
                             .block = {256, 1, 1},
                             .parameters = parameters}),
            "launch stream=3 kernel=9 grid=10x2x1 block=256x1x1 shared_bytes=0 flags=0 "
            "parameters=3:01ff00");
  EXPECT_EQ(described(GlobalAddress{.module = {2}, .name = "a\"\x1b["}, 7),
            "global_address #7 module=2 name=\"a\\x22\\x1b[\"");
  EXPECT_EQ(described(CopyIn{.to = {0x7f00}}, 0, 4096), "copy_in stream=0 to=0x7f00 + 4096 bytes");
  EXPECT_EQ(described(KernelSetAttribute{.kernel = {1}, .attribute = 8, .value = -1}),
            "kernel_set_attribute kernel=1 attribute=8 value=-1");
}

TEST(Describe, AnswersNoticesAndWhatIsNone) {
  std::vector<std::byte> body(16);
  const std::int32_t status = 700;
  std::memcpy(body.data(), &status, 4);
  body[8] = std::byte{5};
  const FrameHeader answer{
      .body_bytes = 16, .code = EventElapsed::kSpec.code | kAnswer, .request = 12};
  EXPECT_EQ(describe(answer, body, Direction::down),
            "event_elapsed answer #12 status=700 nanoseconds=5");
  EXPECT_EQ(outcome_of(answer, body)->status, 700);
  EXPECT_EQ(describe(answer, Bytes(body).first(3), Direction::down),
            "event_elapsed answer #12 (its 3 bytes do not decode)");
  EXPECT_EQ(describe({.code = 112}, Bytes(body).first(4), Direction::down), "waiting place=700");
  EXPECT_EQ(describe({.code = 112}, {}, Direction::up), "unknown code 0x70 with 0 bytes");
  EXPECT_FALSE(spec_of(answer, Direction::up));
}

TEST(Describe, ThePageInTheDocumentsIsWhatTheTableSays) {
  EXPECT_EQ(source_text("docs/remote-protocol.md"), protocol_page())
      << "write it anew: partita remote operations --format markdown -o docs/remote-protocol.md";
}

// --- the file ------------------------------------------------------------------------------

struct Passed {
  Direction direction;
  FrameHeader header;
  std::vector<std::byte> body, bulk;
};

std::vector<Passed> random_traffic(Rng rng, int count) {
  std::vector<Passed> frames;
  auto bytes = [&](std::size_t size) {
    std::vector<std::byte> some(size);
    for (auto& byte : some) byte = static_cast<std::byte>(rng.next());
    return some;
  };
  for (int i = 0; i < count; ++i) {
    Passed frame{.direction = rng.below(3) == 0 ? Direction::down : Direction::up,
                 .header = {},
                 .body = bytes(rng.below(200)),
                 .bulk = bytes(rng.below(3) == 0 ? rng.below(5000) : 0)};
    frame.header = {.body_bytes = static_cast<std::uint32_t>(frame.body.size()),
                    .code = static_cast<std::uint16_t>(rng.below(3) == 0 ? ModulePut::kSpec.code
                                                                         : rng.below(128)),
                    .request = static_cast<std::uint32_t>(rng.below(9)),
                    .bulk_bytes = frame.bulk.size()};
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string recorded(const std::vector<Passed>& frames, Rng rng, RecorderOptions options) {
  const TraceFolder folder;
  const auto recorder = Recorder::create(folder.file("t"), options);
  EXPECT_TRUE(recorder);
  for (const Passed& frame : frames) {
    std::vector<std::byte> all(sizeof(FrameHeader));
    std::memcpy(all.data(), &frame.header, sizeof(FrameHeader));
    all.insert(all.end(), frame.body.begin(), frame.body.end());
    all.insert(all.end(), frame.bulk.begin(), frame.bulk.end());
    for (Bytes left = all; !left.empty();) {
      const std::size_t piece = 1 + rng.below(left.size());
      (*recorder)->saw(frame.direction, left.first(piece));
      left = left.subspan(piece);
    }
  }
  EXPECT_TRUE((*recorder)->finish());
  EXPECT_EQ((*recorder)->frames(), frames.size());
  return text_of(folder.file("t"));
}

TEST(Recorder, EveryFrameIsInTheFileAsItPassed) {
  for (int seed = 0; seed < test_rounds(100); ++seed) {
    const Rng rng(static_cast<std::uint64_t>(seed));
    const auto frames = random_traffic(rng.split(1), 30);
    const bool all = seed % 2 == 0;
    const std::string text = recorded(frames, rng.split(2), {.all_bulk = all});
    const auto trace = parse_trace("t", bytes_of(text));
    ASSERT_TRUE(trace) << trace.error().message;
    EXPECT_FALSE(trace->torn);
    ASSERT_EQ(trace->records.size(), frames.size());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const TraceRecord& record = trace->records[i];
      EXPECT_EQ(record.direction, frames[i].direction);
      EXPECT_EQ(record.header, frames[i].header);
      EXPECT_TRUE(std::ranges::equal(record.body, frames[i].body));
      EXPECT_EQ(record.checksum, checksum_more(0, frames[i].bulk));
      const bool needed =
          frames[i].direction == Direction::up &&
          (frames[i].header.code == ModulePut::kSpec.code || frames[i].bulk.size() <= kSmallBulk);
      ASSERT_EQ(record.kept == KeptBulk::whole, all || needed);
      const auto& kept = all || needed ? frames[i].bulk : std::vector<std::byte>();
      EXPECT_TRUE(std::ranges::equal(record.bulk, kept));
    }
  }
}

TEST(TraceFile, EveryCutIsTornAndEveryChangedByteIsRefused) {
  const std::string text =
      recorded(random_traffic(Rng(3), 5), Rng(4), {.all_bulk = true}).substr(0, 1500);
  std::size_t most = 0;
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::string cut = text.substr(0, size);
    const auto trace = parse_trace("t", bytes_of(cut));
    EXPECT_EQ(trace.has_value(), size >= 48) << size;
    if (trace) most = std::max(most, trace->records.size());
  }
  EXPECT_GT(most, 0u);
  const std::size_t whole = parse_trace("t", bytes_of(text))->records.size();
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    const auto trace = parse_trace("t", bytes_of(changed));
    // A time in the head, or a length of the last record, may change unseen; records may not.
    if (!trace) continue;
    EXPECT_LE(trace->records.size(), whole) << at;
    EXPECT_TRUE(trace->torn || at < 48) << at;
  }
}

TEST(Recorder, StopsAtItsLimitAndAtWhatIsNoFrame) {
  const TraceFolder folder;
  auto recorder = Recorder::create(folder.file("t"), {.most_bytes = 400});
  const FrameHeader header{.code = 2};
  for (int i = 0; i < 100; ++i) {
    (*recorder)->saw(Direction::up, std::as_bytes(std::span(&header, 1)));
  }
  EXPECT_FALSE((*recorder)->finish());
  const std::string text = text_of(folder.file("t"));
  EXPECT_LE(text.size(), 400u);
  EXPECT_EQ(parse_trace("t", bytes_of(text))->records.size(), (400u - 48) / 48);

  recorder = Recorder::create(folder.file("u"), {});
  const std::vector<std::byte> none(1000, std::byte{0xff});
  (*recorder)->saw(Direction::up, none);
  EXPECT_FALSE((*recorder)->finish());
  EXPECT_FALSE(Recorder::create(folder.file("no/where"), {}));
}

// --- a session recorded and replayed -------------------------------------------------------

constexpr std::uint64_t kArenaBytes = 1 << 20;

// A server of the kind that a test needs: grants a session with this arena, calls back for every
// host_call, remembers what it got, and answers.
class SmallServer {
 public:
  SmallServer(Channel& channel, std::uint64_t arena, std::int32_t sync_status)
      : channel_(channel), arena_(arena), sync_status_(sync_status) {}

  void run() {
    FrameReader reader(channel_);
    FrameWriter writer(channel_, kSoon);
    for (;;) {
      const auto frame = reader.next(kSoon);
      if (!frame) return;
      took(*frame, reader, writer);
      if (!writer.flush()) return;
    }
  }
  std::vector<std::uint64_t> addresses;      // of copies in
  std::vector<std::uint64_t> parameters;     // first words of launches
  std::vector<std::vector<std::byte>> bulk;  // of modules, and of small copies in

 private:
  void took(const Frame& frame, FrameReader& reader, FrameWriter& writer) {
    const std::uint32_t request = frame.header.request;
    if (const auto copy = decode<CopyIn>(frame.body);
        copy && frame.header.code == CopyIn::kSpec.code) {
      addresses.push_back(copy->to.value);
    }
    if (frame.header.code == Launch::kSpec.code) {
      std::memcpy(&parameters.emplace_back(), decode<Launch>(frame.body)->parameters.data(), 8);
    }
    if (frame.header.code == HostCall::kSpec.code) {
      EXPECT_TRUE(writer.put(Call{.token = decode<HostCall>(frame.body)->token}));
    }
    if (frame.header.code == Hello::kSpec.code) {
      EXPECT_TRUE(writer.put(Waiting{.place = 1}));
      EXPECT_TRUE(writer.answer<Hello>(
          request, {}, {.arena = {arena_}, .arena_bytes = kArenaBytes, .device = "small"}));
    }
    if (frame.header.code == StreamSync::kSpec.code) {
      EXPECT_TRUE(called_);  // the call was answered before
      EXPECT_TRUE(writer.answer<StreamSync>(request, {.status = sync_status_}, {}));
    }
    called_ = called_ || frame.header.code == CallDone::kSpec.code;
    std::vector<std::byte> got(reader.bulk_left());
    EXPECT_TRUE(reader.read_bulk(got, kSoon));
    if (frame.header.code == ModulePut::kSpec.code ||
        (frame.header.code == CopyIn::kSpec.code && got.size() <= kSmallBulk))
      bulk.push_back(got);
  }

  Channel& channel_;
  std::uint64_t arena_;
  std::int32_t sync_status_;
  bool called_ = false;
};

// Every frame that waits for an answer waits for it.
void small_client(Channel& channel, std::uint64_t arena) {
  FrameWriter writer(channel, kSoon);
  FrameReader reader(channel);
  auto until = [&](unsigned code) {
    for (;;) {
      const auto frame = reader.next(kSoon);
      ASSERT_TRUE(frame) << frame.error().message;
      if (frame->header.code == code) return;
    }
  };
  const std::vector<std::byte> image(1000, std::byte{42}), data(5000, std::byte{1});
  const std::uint64_t pointer = arena + 512;
  EXPECT_TRUE(writer.put(Hello{.table = protocol_hash()}, 1) && writer.flush());
  until(Hello::kSpec.code | kAnswer);
  EXPECT_TRUE(writer.put(ModulePut{}, 0, image));
  EXPECT_TRUE(writer.put(CopyIn{.to = {pointer}}, 0, data));
  const std::array<std::uint64_t, 3> description{7, pointer, ~std::uint64_t{0}};
  EXPECT_TRUE(writer.put(CopyIn{.to = {pointer}}, 0, std::as_bytes(std::span(description))));
  EXPECT_TRUE(
      writer.put(Launch{.kernel = {1}, .parameters = std::as_bytes(std::span(&pointer, 1))}));
  EXPECT_TRUE(writer.put(HostCall{.token = {77}}) && writer.flush());
  until(Call::kSpec.code);
  EXPECT_TRUE(writer.put(CallDone{.token = {77}}));
  EXPECT_TRUE(writer.put(StreamSync{}, 2) && writer.flush());
  until(StreamSync::kSpec.code | kAnswer);
  EXPECT_TRUE(writer.put(Bye{}) && writer.flush());
}

std::array<std::unique_ptr<Channel>, 2> channels() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair.data()), 0);
  return {socket_channel(Descriptor(pair[0])), socket_channel(Descriptor(pair[1]))};
}

std::string small_recording() {
  const TraceFolder folder;
  auto recorder = Recorder::create(folder.file("t"), {});
  auto [near, far] = channels();
  constexpr std::uint64_t kArena = 0x1000000;
  std::thread server([&, &end = *far] { SmallServer(end, kArena, 0).run(); });
  const auto client = recording_channel(std::move(near), *recorder, Direction::up);
  small_client(*client, kArena);
  client->shut();
  server.join();
  EXPECT_TRUE((*recorder)->finish());
  return text_of(folder.file("t"));
}

TEST(TraceStats, CallsRoundTripsAndBytesOfASmallSession) {
  const std::string text = small_recording();
  const auto trace = parse_trace("t", bytes_of(text));
  ASSERT_TRUE(trace);
  const TraceStats stats = trace_stats(*trace);
  EXPECT_EQ(stats.all_calls(), 9u);
  EXPECT_EQ(stats.blocking_round_trips(), 2u);
  EXPECT_EQ(stats.blocking.at("stream_sync"), 1u);
  EXPECT_EQ(stats.notices.at("call"), 1u);
  EXPECT_EQ(stats.launches, 1u);
  EXPECT_EQ(stats.kernels, 1u);
  EXPECT_EQ(stats.bulk_up, 6024u);
  EXPECT_EQ(stats.failures + stats.unanswered, 0u);
  std::uint64_t up = 0;
  for (const auto& record : trace->records) {
    if (record.direction == Direction::up) {
      up += 24 + record.body.size() + record.header.bulk_bytes;
    }
  }
  EXPECT_EQ(stats.bytes_up, up);
}

TEST(Replay, SameFramesWithAddressesMovedAndDifferencesNamed) {
  const std::string text = small_recording();
  const auto trace = parse_trace("t", bytes_of(text));
  ASSERT_TRUE(trace);
  for (const std::int32_t status : {0, 700}) {
    auto [near, far] = channels();
    SmallServer server(*far, 0x9000000, status);
    std::thread serving([&] { server.run(); });
    const auto result = replay(*trace, *near, {});
    near.reset();
    serving.join();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->sent, 8u);  // but for hello
    EXPECT_EQ(result->answers, 1u);
    EXPECT_EQ(server.addresses, std::vector<std::uint64_t>(2, 0x9000000 + 512));
    EXPECT_EQ(server.parameters, std::vector<std::uint64_t>{0x9000000 + 512});
    ASSERT_EQ(server.bulk.size(), 2u);
    EXPECT_EQ(server.bulk[0], std::vector<std::byte>(1000, std::byte{42}));
    const std::array<std::uint64_t, 3> description{7, 0x9000000 + 512, ~std::uint64_t{0}};
    EXPECT_TRUE(std::ranges::equal(server.bulk[1], std::as_bytes(std::span(description))));
    ASSERT_EQ(result->differences.size(), status == 0 ? 0u : 1u);
    if (status != 0) {
      EXPECT_EQ(result->differences[0].operation, "stream_sync");
      EXPECT_EQ(result->differences[0].now, 700);
    }
  }
}

TEST(Replay, ServerThatGoesIsLostAndRecordingsWithoutHelloAreRefused) {
  const std::string text = small_recording();
  auto trace = parse_trace("t", bytes_of(text));
  ASSERT_TRUE(trace);
  auto [near, far] = channels();
  far->shut();
  EXPECT_EQ(replay(*trace, *near, {}).error().code, ErrorCode::lost);
  trace->records.erase(trace->records.begin());
  EXPECT_EQ(replay(*trace, *near, {}).error().code, ErrorCode::bad_input);
}

TEST(RecordingProxy, PassesAndRecordsEveryConnection) {
  const TraceFolder folder;
  const auto listener = system_net().listen("unix:" + folder.file("server"));
  ASSERT_TRUE(listener);
  auto proxy = RecordingProxy::start(system_net(), "unix:" + folder.file("proxy"),
                                     (*listener)->address(), folder.file("t"));
  ASSERT_TRUE(proxy) << proxy.error().message;
  for (int i = 0; i < 2; ++i) {
    std::thread server([&] {
      auto accepted = (*listener)->accept(kSoon);
      ASSERT_TRUE(accepted);
      SmallServer(*accepted->channel, 0x1000000, 0).run();
    });
    auto client = system_net().connect((*proxy)->address(), kSoon);
    ASSERT_TRUE(client);
    small_client(**client, 0x1000000);
    client->reset();
    server.join();
  }
  EXPECT_TRUE((*proxy)->finish());
  for (const char* name : {"t", "t.2"}) {
    const std::string text = text_of(folder.file(name));
    const auto trace = parse_trace(name, bytes_of(text));
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace_stats(*trace).all_calls(), 9u);
  }
}

}  // namespace
}  // namespace partita::remote
