#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/rng.h"
#include "base/test_rounds.h"
#include "wire/net/frames.h"
#include "wire/net/ring_channel.h"
#include "wire/net/system_net.h"

namespace partita::remote {
namespace {

using std::chrono::milliseconds;

constexpr Nanos kSoon = std::chrono::seconds(20);  // far beyond what is expected

// A folder that is gone afterwards.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "partita-net-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<std::string> all_transports() { return {"unix:", "socket:", "tcp:"}; }

// An address to listen at.
std::string fresh_address(const std::string& transport, const TestFolder& folder) {
  return transport == "tcp:" ? "tcp:127.0.0.1:0" : transport + folder.file("s");
}

struct ChannelPair {
  std::unique_ptr<Channel> server, client;
};

ChannelPair connected(const std::string& transport) {
  const TestFolder folder;
  const auto listener = system_net().listen(fresh_address(transport, folder));
  EXPECT_TRUE(listener) << listener.error().message;
  Result<Listener::Accepted> accepted = failed({});
  std::thread server([&] { accepted = (*listener)->accept(kSoon); });
  auto client = system_net().connect((*listener)->address(), kSoon);
  server.join();
  EXPECT_TRUE(accepted && client);
  return {std::move(accepted->channel), std::move(*client)};
}

class OnTransport : public testing::TestWithParam<std::string> {};

std::string transport_name(const testing::TestParamInfo<std::string>& info) {
  return info.param == "unix:" ? "rings" : info.param.substr(0, info.param.size() - 1);
}
INSTANTIATE_TEST_SUITE_P(Net, OnTransport, testing::ValuesIn(all_transports()), transport_name);

struct SentFrame {
  FrameHeader header;
  std::vector<std::byte> body, bulk;
};

std::vector<std::byte> random_bytes(Rng& rng, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

// Mostly small bodies, some at the limits, and some bulk larger than the rings.
std::vector<SentFrame> random_frames(std::uint64_t seed, int count) {
  Rng rng(seed);
  std::vector<SentFrame> frames;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t kind = rng.below(20);
    SentFrame frame;
    frame.body = random_bytes(rng, kind == 0   ? kMaxBody
                                   : kind == 1 ? kGather - sizeof(FrameHeader)
                                               : rng.below(300));
    const bool huge = i == count / 2;
    frame.bulk = random_bytes(rng, huge ? 2 * kRingBytes + 5 : kind < 14 ? 0 : rng.below(100'000));
    frame.header = {.body_bytes = static_cast<std::uint32_t>(frame.body.size()),
                    .code = static_cast<std::uint16_t>(rng.below(65536)),
                    .request = static_cast<std::uint32_t>(rng.next()),
                    .bulk_bytes = frame.bulk.size()};
    frames.push_back(std::move(frame));
  }
  return frames;
}

void send_all(Channel& channel, const std::vector<SentFrame>& frames, Rng rng) {
  FrameWriter writer(channel, kSoon);
  for (const auto& frame : frames) {
    ASSERT_TRUE(writer.put_raw(frame.header, frame.body, frame.bulk));
    if (rng.below(8) == 0) {
      ASSERT_TRUE(writer.flush());
    }
  }
  ASSERT_TRUE(writer.flush());
}

void expect_all(Channel& channel, const std::vector<SentFrame>& frames, Rng rng) {
  FrameReader reader(channel);
  for (const auto& frame : frames) {
    const auto got = reader.next(kSoon);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->header, frame.header);
    ASSERT_TRUE(std::ranges::equal(got->body, frame.body));
    ASSERT_EQ(reader.bulk_left(), frame.bulk.size());
    if (rng.below(4) == 0) {
      ASSERT_TRUE(reader.drop_bulk(kSoon));
      continue;
    }
    std::vector<std::byte> bulk(frame.bulk.size());
    const std::size_t first = bulk.empty() ? 0 : rng.below(bulk.size());
    ASSERT_TRUE(reader.read_bulk(std::span(bulk).first(first), kSoon));
    ASSERT_TRUE(reader.read_bulk(std::span(bulk).subspan(first), kSoon));
    EXPECT_TRUE(bulk == frame.bulk);
  }
}

TEST(SystemNet, KnowsWhichAddressesOnlyThisHostReaches) {
  for (const char* local : {"unix:/tmp/a", "socket:/tmp/a", "127.0.0.1:7070", "tcp:localhost:7070",
                            "[::1]:7070", "slow:25:127.0.0.1:7070"})
    EXPECT_TRUE(only_this_host(local)) << local;
  for (const char* open : {"notlocalhost:7070", "0.0.0.0:7070", "a127.0.0.1:7070", "[::]:7070",
                           "localhost:7070.example:80", "slow:25:example.org:7070", "nothing"})
    EXPECT_FALSE(only_this_host(open)) << open;
}

TEST_P(OnTransport, RandomFramesComeOutEqualInBothDirectionsAtOnce) {
  auto [server, client] = connected(GetParam());
  for (int seed = 0; seed < test_rounds(4); ++seed) {
    const Rng rng(static_cast<std::uint64_t>(seed));
    const auto up = random_frames(rng.split(1).next(), 60);
    const auto down = random_frames(rng.split(2).next(), 60);
    std::thread client_writes([&, &c = *client] { send_all(c, up, rng.split(3)); });
    std::thread server_writes([&, &s = *server] { send_all(s, down, rng.split(4)); });
    std::thread client_reads([&, &c = *client] { expect_all(c, down, rng.split(5)); });
    expect_all(*server, up, rng.split(6));
    client_writes.join();
    server_writes.join();
    client_reads.join();
  }
}

TEST_P(OnTransport, SilenceIsATimeoutAndWhatCameIsKept) {
  auto [server, client] = connected(GetParam());
  FrameReader reader(*server);
  EXPECT_EQ(reader.next(Nanos(0)).error().code, ErrorCode::timeout);
  EXPECT_EQ(reader.next(milliseconds(5)).error().code, ErrorCode::timeout);
  const FrameHeader header{.body_bytes = 3, .code = 7, .bulk_bytes = 4};
  std::vector<std::byte> bytes(sizeof header + 3 + 4, std::byte{9});
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i < sizeof header + 3) {
      EXPECT_EQ(reader.next(Nanos(0)).error().code, ErrorCode::timeout);
      EXPECT_FALSE(reader.has_buffered());
    }
    const std::array<Bytes, 1> parts{Bytes(bytes).subspan(i, 1)};
    ASSERT_TRUE(client->write(parts, kSoon));
  }
  ASSERT_TRUE(reader.next(kSoon));
  EXPECT_EQ(reader.bulk_left(), 4u);
  std::array<std::byte, 4> bulk{};
  ASSERT_TRUE(reader.read_bulk(bulk, kSoon));
  EXPECT_EQ(bulk[3], std::byte{9});
  client.reset();
  EXPECT_EQ(reader.next(kSoon).error().code, ErrorCode::lost);
}

TEST_P(OnTransport, WriterThatNobodyReadsTimesOut) {
  auto [server, client] = connected(GetParam());
  const std::vector<std::byte> much(64 << 20);
  const std::array<Bytes, 1> parts{much};
  const auto done = client->write(parts, milliseconds(30));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::timeout);
}

TEST_P(OnTransport, DescriptorIsReadableWhenBytesCameAfterATimeout) {
  auto [server, client] = connected(GetParam());
  std::array<std::byte, 16> into{};
  const std::array<Bytes, 1> one{Bytes(into).first(1)};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(server->read(into, Nanos(0)).error().code, ErrorCode::timeout);
    ASSERT_TRUE(client->write(one, kSoon));
    pollfd wait{server->descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&wait, 1, 20'000), 1);
    const auto size = server->read(into, Nanos(0));
    ASSERT_TRUE(size);
    EXPECT_EQ(*size, 1u);
  }
  client.reset();
  pollfd wait{server->descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, 20'000), 1);
  EXPECT_EQ(server->read(into, kSoon).value(), 0u);
}

TEST_P(OnTransport, ShutFreesBothEndsWhateverTheyWaitFor) {
  auto [server, client] = connected(GetParam());
  const std::vector<std::byte> much(64 << 20);
  std::thread writer([&, &c = *client] {
    const std::array<Bytes, 1> parts{much};
    EXPECT_FALSE(c.write(parts, kSoon));
  });
  std::thread reader([&, &c = *client] {
    std::array<std::byte, 16> into{};
    const auto size = c.read(into, kSoon);
    EXPECT_TRUE(!size || *size == 0);
  });
  std::this_thread::sleep_for(milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  client->shut();
  writer.join();
  reader.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  std::vector<std::byte> into(1 << 20);  // what was on its way may still come, then the end
  Result<std::size_t> size = 1u;
  while (size && *size > 0) size = server->read(into, kSoon);
  EXPECT_TRUE(size || size.error().code == ErrorCode::lost);
}

// The child is killed while it does `work` for ever; `mine` must then end within a second or so.
template <class Work, class Mine>
void with_killed_peer(const std::string& transport, Work&& work, Mine&& mine) {
  auto [server, client] = connected(transport);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    server.reset();
    work(*client);
    ::_exit(1);
  }
  client.reset();
  std::chrono::steady_clock::time_point killed;
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(30));
    killed = std::chrono::steady_clock::now();
    ::kill(child, SIGKILL);
  });
  mine(*server);
  const auto ended = std::chrono::steady_clock::now();
  killer.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_LT(ended - killed, std::chrono::seconds(1));
}

void read_to_the_end(Channel& channel) {
  std::vector<std::byte> into(1 << 16);
  Result<std::size_t> size = 1u;
  while (size && *size > 0) size = channel.read(into, kSoon);
  EXPECT_TRUE(size || size.error().code == ErrorCode::lost);
}

TEST_P(OnTransport, PeerKilledWhileItWrites) {
  const std::vector<std::byte> much(1 << 20);
  with_killed_peer(
      GetParam(),
      [&](Channel& channel) {
        const std::array<Bytes, 1> parts{much};
        while (channel.write(parts, kSoon)) {
        }
      },
      read_to_the_end);
}

TEST_P(OnTransport, PeerKilledWhileItIsSilent) {
  with_killed_peer(
      GetParam(), [](Channel&) { ::pause(); }, read_to_the_end);
}

TEST_P(OnTransport, PeerKilledWhileItDoesNotRead) {
  const std::vector<std::byte> much(64 << 20);
  with_killed_peer(
      GetParam(), [](Channel&) { ::pause(); },
      [&](Channel& channel) {
        const std::array<Bytes, 1> parts{much};
        const auto done = channel.write(parts, kSoon);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().code, ErrorCode::lost);
      });
}

TEST_P(OnTransport, AdoptedChannelGoesOnWhereTheFirstOneStopped) {
  auto [server, client] = connected(GetParam());
  Rng rng(5);
  const auto bytes = random_bytes(rng, 3 * kRingBytes);
  std::thread sender([&, &c = *client] {
    const std::array<Bytes, 1> parts{bytes};
    EXPECT_TRUE(c.write(parts, kSoon));
  });
  std::vector<std::byte> got(bytes.size());
  std::size_t have = 0;
  while (have < got.size()) {
    have += server->read(std::span(got).subspan(have), kSoon).value();
    std::vector<Descriptor> parts;
    for (const int fd : server->descriptors()) parts.emplace_back(::dup(fd));
    server = std::move(adopt(std::move(parts)).value());
  }
  sender.join();
  EXPECT_TRUE(got == bytes);
}

// --- frames --------------------------------------------------------------------------------

TEST(Frames, IllegalHeadersAreRefused) {
  const std::vector<FrameHeader> illegal{{.body_bytes = kMaxBody + 1},
                                         {.reserved = 1},
                                         {.reserved2 = 1},
                                         {.bulk_bytes = kMaxBulk + 1}};
  for (const auto& header : illegal) {
    auto [server, client] = connected("socket:");
    const std::array<Bytes, 1> parts{std::as_bytes(std::span(&header, 1))};
    ASSERT_TRUE(client->write(parts, kSoon));
    FrameReader reader(*server);
    const auto got = reader.next(kSoon);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::bad_input);
    EXPECT_TRUE(reader.has_buffered());
    EXPECT_EQ(reader.next(Nanos(0)).error().code, ErrorCode::bad_input);
    FrameWriter writer(*server, kSoon);
    EXPECT_EQ(writer.put_raw(header, {}).error().code, ErrorCode::invalid_argument);
  }
}

TEST(Frames, OperationsAndAnswersComeBack) {
  auto [server, client] = connected("socket:");
  FrameWriter writer(*client, kSoon);
  const std::vector<std::byte> parameters(40, std::byte{3});
  ASSERT_TRUE(writer.put(Launch{.kernel = {4}, .parameters = parameters}));
  EXPECT_EQ(writer.gathered(), sizeof(FrameHeader) + 48 + 4 + 40);
  ASSERT_TRUE(writer.answer<CopyOut>(12, {.status = 1, .sticky = 2}, {}, parameters));
  EXPECT_EQ(writer.gathered(), 0u);
  const std::string text(kMaxText + 1, 'x');
  EXPECT_EQ(writer.put(GlobalAddress{.name = text}).error().code, ErrorCode::invalid_argument);
  FrameReader reader(*server);
  auto frame = reader.next(kSoon);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header.code, Launch::kSpec.code);
  EXPECT_EQ(decode<Launch>(frame->body)->kernel.value, 4u);
  frame = reader.next(kSoon);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->header.code, CopyOut::kSpec.code | kAnswer);
  EXPECT_EQ(frame->header.request, 12u);
  EXPECT_EQ(decode<Outcome>(frame->body), (Outcome{.status = 1, .sticky = 2}));
  EXPECT_EQ(reader.bulk_left(), 40u);
  ASSERT_TRUE(reader.drop_bulk(kSoon));
  EXPECT_EQ(reader.received(), writer.written());
}

// --- addresses -----------------------------------------------------------------------------

TEST(SystemNet, AddressesThatAreNone) {
  for (const char* text :
       {"", "unix:", "host", "host:", ":7", "host:x", "host:70000", "a:b:1", "tcp:", "[::1]",
        "host:-1", "slow:", "slow:x:unix:/tmp/x", "slow:-1:host:1"}) {
    EXPECT_FALSE(system_net().listen(text)) << text;
    EXPECT_FALSE(system_net().connect(text, milliseconds(1))) << text;
  }
}

TEST(SystemNet, SlowOnesAreSlow) {
  auto [server, client] = connected("slow:3000:unix:");
  const std::array<std::byte, 4> four{};
  const std::array<Bytes, 1> parts{four};
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(client->write(parts, kSoon));
  std::array<std::byte, 8> into{};
  EXPECT_EQ(server->read(into, kSoon).value(), 4u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(3));
}

TEST(SystemNet, NobodyListens) {
  const TestFolder folder;
  for (const std::string& transport : {std::string("unix:"), std::string("socket:")}) {
    const auto channel = system_net().connect(transport + folder.file("none"), milliseconds(50));
    ASSERT_FALSE(channel);
    EXPECT_EQ(channel.error().code, ErrorCode::not_found);
  }
}

TEST(SystemNet, OneListenerAPathAndTheDeadOnesSocketIsReplaced) {
  const TestFolder folder;
  const std::string long_name(120, 'p');
  std::filesystem::create_directory(folder.file(long_name));
  const std::string address = "unix:" + folder.file(long_name) + "/s";
  {
    const auto listener = system_net().listen(address);
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_EQ(system_net().listen(address).error().code, ErrorCode::in_use);
    const pid_t child = ::fork();
    if (child == 0) {
      const_cast<std::unique_ptr<Listener>&>(*listener).reset();  // must not remove the file
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(std::filesystem::exists(address.substr(5)));
  }
  EXPECT_FALSE(std::filesystem::exists(address.substr(5)));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto listener = system_net().listen(address);
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(address.substr(5)));
  EXPECT_TRUE(system_net().listen(address));
}

TEST(SystemNet, ConnectorTakesWhatTheListenerOffers) {
  const TestFolder folder;
  const std::string path = folder.file("s");
  const auto listener = system_net().listen("socket:" + path);
  ASSERT_TRUE(listener);
  std::thread server([&] {
    const auto accepted = (*listener)->accept(kSoon);
    ASSERT_TRUE(accepted);
    EXPECT_EQ(accepted->pid, ::getpid());
    EXPECT_EQ(accepted->uid, static_cast<long>(::getuid()));
    EXPECT_EQ(accepted->channel->descriptors().size(), 1u);
  });
  EXPECT_TRUE(system_net().connect("unix:" + path, kSoon));
  server.join();
}

TEST(SystemNet, OneThatInsistsOnASocketIsRefusedByRings) {
  const TestFolder folder;
  const auto listener = system_net().listen("unix:" + folder.file("s"));
  ASSERT_TRUE(listener);
  std::thread server([&] { EXPECT_TRUE((*listener)->accept(kSoon)); });
  EXPECT_EQ(system_net().connect("socket:" + folder.file("s"), kSoon).error().code,
            ErrorCode::bad_input);
  server.join();
}

TEST(SystemNet, ServerThatDoesNotAcceptIsATimeout) {
  const TestFolder folder;
  const auto listener = system_net().listen("unix:" + folder.file("s"));
  EXPECT_EQ(system_net().connect("unix:" + folder.file("s"), milliseconds(20)).error().code,
            ErrorCode::timeout);
}

}  // namespace
}  // namespace partita::remote
