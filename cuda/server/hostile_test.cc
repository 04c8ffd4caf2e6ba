// Clients that wish us ill, beside one that does not; and networks that fail.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/test_rounds.h"
#include "server/testing/hostile_client.h"
#include "server/testing/test_client.h"

namespace partita::remote::server {
namespace {

// A program as it should be: its memory holds what it wrote.
class Neighbour {
 public:
  explicit Neighbour(TestServer& server)
      : channel_(*server.net.connect("sim", std::chrono::seconds(1))), client_(*channel_) {
    EXPECT_EQ(client_.ask(Hello{.table = protocol_hash()}).outcome, Outcome{});
    client_.send(Alloc{{kFakeArena}, 65'536});
    client_.send(Set{.to = {kFakeArena}, .value = 0x600dda7a, .element = 4, .count = 16'384});
    EXPECT_EQ(client_.ask(Fence{}).outcome, Outcome{});
  }
  bool unharmed() {
    const auto out = client_.ask(CopyOut{{}, {kFakeArena}, 65'536});
    if (!out.came || out.outcome != Outcome{} || out.bulk.size() != 65'536) return false;
    for (std::size_t at = 0; at < out.bulk.size(); at += 4) {
      std::uint32_t word = 0;
      std::memcpy(&word, out.bulk.data() + at, 4);
      if (word != 0x600dda7a) return false;
    }
    return true;
  }

 private:
  std::unique_ptr<Channel> channel_;
  TestClient client_;
};

// The server CHECKs that what it hands to its devices is alive; sessions that go wrong say why.
// One hostile session; what it found wrong is an expectation.
struct Tally {
  std::uint64_t refused = 0, ended = 0;
};
void attack(TestServer& server, std::uint64_t seed, Tally& tally) {
  auto channel = *server.net.connect("sim", std::chrono::seconds(1));
  TestClient client(*channel, std::chrono::milliseconds(50));
  ASSERT_EQ(client.ask(Hello{.table = protocol_hash()}).outcome, Outcome{});
  const std::vector<std::byte> stream = HostileClient(seed, kFakeArena).session();
  const std::span<const std::byte> part(stream);
  static_cast<void>(channel->write({&part, 1}, std::chrono::milliseconds(50)));
  while (client.read()) continue;
  channel->shut();
  server.net.run_for(std::chrono::seconds(1));
  TestServer::Seat& seat = *server.seats.back();
  ASSERT_TRUE(seat.ended) << "seed " << seed;
  ASSERT_NE(seat.reason, "") << "seed " << seed;
  if (seat.reason != "the client is gone" && seat.reason != "the client left") {
    ++tally.ended;
    ASSERT_THAT(client.said, ::testing::HasSubstr("the session ends")) << seat.reason;
  }
  // An error without a reason would leave the user in the dark.
  const bool sticky = std::ranges::any_of(client.answers, [](const auto& answer) {
    return decode<Outcome>(Bytes(answer.second.body).first(8))->sticky != 0;
  });
  if (sticky) {
    ++tally.refused;
    ASSERT_NE(client.said, "") << "seed " << seed;
  }
  server.seats.pop_back();
}

TEST(Hostile, SessionsAreRefusedWithAReasonAndHarmNobody) {
  constexpr std::uint64_t kOfAServer = 500;
  const auto rounds = static_cast<std::uint64_t>(test_rounds(2'000));
  Tally tally;
  for (std::uint64_t first = 0; first < rounds; first += kOfAServer) {
    TestServer server({}, {.memory = 1 << 20}, {.memory = 1 << 20, .patience = Nanos(0)});
    Neighbour neighbour(server);
    for (std::uint64_t seed = first; seed < std::min(rounds, first + kOfAServer); ++seed) {
      attack(server, seed, tally);
      if (HasFatalFailure()) return;
      if (seed % 100 == 0) {
        ASSERT_TRUE(neighbour.unharmed()) << "seed " << seed;
      }
    }
    ASSERT_TRUE(neighbour.unharmed());
  }
  EXPECT_GT(tally.refused, rounds / 4);
  EXPECT_GT(tally.ended, rounds / 10);
}

// Programs over networks that delay, stall and cut: each hears an error or gets its result, and
// nothing of it is left at the server.
TEST(Hostile, NetworksThatFailLeaveNothingBehind) {
  const std::uint64_t rounds = static_cast<std::uint64_t>(test_rounds(400));
  int whole = 0, broken = 0;
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    TestServer server(random_network(seed, true));
    auto connected = server.net.connect("sim", std::chrono::seconds(1));
    ASSERT_TRUE(connected);
    std::unique_ptr<Channel> channel = *std::move(connected);
    {
      TestClient client(*channel, std::chrono::seconds(1));
      bool good = client.ask(Hello{.table = protocol_hash()}).came;
      client.send(Alloc{{kFakeArena}, 4096});
      client.send(StreamCreate{{1}});
      for (std::uint32_t i = 0; good && i < 20; ++i) {
        client.send(
            Set{.stream = {1}, .to = {kFakeArena}, .value = i, .element = 4, .count = 1024});
        const auto out = client.ask(CopyOut{{1}, {kFakeArena}, 4096});
        good = out.came;
        if (!good) break;
        ASSERT_EQ(out.bulk.size(), 4096u) << "seed " << seed;
        ASSERT_EQ(static_cast<std::uint32_t>(out.bulk[4092]), i) << "seed " << seed;
      }
      ++(good ? whole : broken);
      ASSERT_TRUE(good || !client.error.empty()) << "seed " << seed;
    }
    channel->shut();
    server.net.run_for(std::chrono::seconds(300));  // beyond the longest stall
    for (const auto& seat : server.seats) {
      ASSERT_TRUE(seat->ended) << "seed " << seed << (seat->session ? "" : " no session");
    }
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(broken, 0);
}

}  // namespace
}  // namespace partita::remote::server
