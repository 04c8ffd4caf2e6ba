// What sessions share: the broker's table, events of several sessions, and memory. Who may open a
// thing, how many there may be, and what is left of it when its session ends.
#include "server/sharing.h"

#include <gmock/gmock.h>

#include "server/messages.h"
#include "server/testing/session_fixture.h"

namespace partita::remote::server {
namespace {

using ::testing::HasSubstr;
using Kind = ShareRequest::Kind;

constexpr std::uint64_t kMostShared = std::uint64_t{1} << 30;
const SharedThings::Asker kAnna{1, "unix1000"}, kAnnaAgain{2, "unix1000"}, kBert{3, "unix1001"};

TEST(SharedThings, OpenOnlyToTheClientThatMadeThem) {
  SharedThings things(kMostShared);
  const auto [made, file] = things.take(kAnna, {.kind = Kind::make, .bytes = 5000});
  ASSERT_EQ(made.status, kSuccess);
  const auto open = [&](const SharedThings::Asker& who, ShareKey key, std::uint32_t event = 0) {
    return things.take(who, {.kind = Kind::open, .event = event, .key = key});
  };
  EXPECT_EQ(open(kAnnaAgain, made.key).second, file);
  EXPECT_EQ(open(kAnnaAgain, made.key).first.bytes, 5000u);
  EXPECT_EQ(open(kBert, made.key).second, -1);
  EXPECT_EQ(open(kAnna, made.key, 1).second, -1) << "it is no event";
  ShareKey other = made.key;
  other[7] ^= std::byte{1};
  EXPECT_EQ(open(kAnna, other).second, -1);
  for (const auto& who : {kBert, kAnnaAgain})
    things.take(who, {.kind = Kind::drop, .key = made.key});
  EXPECT_EQ(open(kAnna, made.key).second, file) << "only who made it takes it away";
  things.ended(kAnna.session);
  EXPECT_EQ(open(kAnnaAgain, made.key).second, -1);
  EXPECT_EQ(things.size(), 0u);
}

TEST(SharedThings, AreBounded) {
  SharedThings things(kMostShared);
  const auto make = [&](const SharedThings::Asker& who, std::uint64_t bytes) {
    return things.take(who, {.kind = Kind::make, .bytes = bytes}).first.status;
  };
  EXPECT_EQ(make(kAnna, 0), kOutOfMemory);
  EXPECT_EQ(make(kAnna, kMostShared + 1), kOutOfMemory);
  for (std::size_t i = 0; i < SharedThings::kMost; ++i) EXPECT_EQ(make(kAnna, 1), kSuccess);
  EXPECT_EQ(make(kAnna, 1), kOutOfMemory);
  EXPECT_EQ(make(kBert, 1), kSuccess) << "another session's are its own";
  const SharedThings::Asker carl{4, "unix1002"};
  EXPECT_EQ(make(carl, kMostShared - 5000), kSuccess);
  EXPECT_EQ(make(carl, 5001), kOutOfMemory) << "more than it may have, together";
  EXPECT_EQ(make(carl, 5000), kSuccess);
  EXPECT_EQ(things.take(kAnna, {.kind = Kind(77)}).second, -1);
}

TEST(SharedEvent, IsReachedRecordByRecord) {
  SharedThings things(kMostShared);
  const auto [made, number] = things.take(kAnna, {.kind = Kind::make, .event = 1});
  const Descriptor file(::dup(number));
  const auto first = SharedEvent::in(file, 1);
  auto second = SharedEvent::in(file, 2);
  EXPECT_TRUE(second->reached(second->last())) << "never recorded";
  const std::uint64_t one = first->begin(), two = second->begin();
  EXPECT_EQ(first->last(), two);
  second->reach(two);
  EXPECT_TRUE(first->reached(two));
  EXPECT_FALSE(second->reached(one)) << "each record by itself";
  first->reach(one);
  EXPECT_TRUE(second->reached(one));
  // Who goes takes his records along, be it in order or not.
  const std::uint64_t three = second->begin(), four = first->begin();
  second.reset();
  EXPECT_TRUE(first->reached(three));
  EXPECT_FALSE(first->reached(four));
  things.take(kAnnaAgain, {.kind = Kind::open, .event = 1, .key = made.key});
  SharedEvent::end_records(file, 1);
  EXPECT_TRUE(first->reached(four));
}

class SharingTest : public SessionTest {};

TEST_F(SharingTest, IsRefusedWhereThereIsNoBrokerAndOnDevicesWithout) {
  start();
  client->send(Alloc{{kFakeArena}, 4096}), client->send(EventCreate{{1}, kNoTiming});
  EXPECT_EQ(client->ask(MemoryShare{{kFakeArena}, 0}).outcome.status, kNotSupported);
  EXPECT_EQ(client->ask(EventShare{{1}}).outcome.status, kNotSupported);
  EXPECT_THAT(client->said, HasSubstr("this server's sessions share nothing"));
  EXPECT_EQ(client->ask(MemoryShare{{kFakeArena + 8192}, 0}).outcome.status, kInvalidValue);
  client->send(GraphCreate{{1}});
  client->send(GraphAdd{{1}, {11}, {}, frame_of(EventRecord{{1}, {}})});
  EXPECT_EQ(client->ask(EventShare{{1}}).outcome.status, kNotSupported);
  EXPECT_THAT(client->said, HasSubstr("sharing an event that nodes of graphs have"));
  const ShareKey key = {};
  EXPECT_EQ(client->ask(MemoryOpen{key, {kFakeArena + 8192}, 1}).outcome.status, kNotSupported);
  EXPECT_EQ(client->ask(MemoryOpen{Bytes(key).first(3), {kFakeArena + 8192}, 1}).outcome.status,
            kNotSupported);
  client->send(Free{{kFakeArena}});
  EXPECT_EQ(fence(), 0) << client->said;
}

// Over its socket a session gets what the broker's table answers; where the broker is gone, a no.
TEST(BrokerShelf, AsksAndHearsOfItsEnd) {
  auto pair = message_pair();
  ASSERT_TRUE(pair);
  SharedThings things(kMostShared);
  BrokerShelf shelf(std::move(pair->second));
  Received<ShareRequest> request;
  // The answer lies there before it is asked for.
  const auto [answer, file] = things.take(kAnna, {.kind = Kind::make, .bytes = 100});
  const std::array<int, 1> beside{file};
  ASSERT_TRUE(send_message(pair->first.get(), answer, beside));
  const auto made = shelf.make(100, false);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->key, answer.key);
  ASSERT_EQ(receive_message(pair->first.get(), request), Arrival::came);
  EXPECT_EQ(request.message.kind, Kind::make);
  EXPECT_EQ(request.message.bytes, 100u);
  ASSERT_TRUE(send_message(pair->first.get(), ShareAnswer{.status = kSuccess}));
  EXPECT_EQ(shelf.open(made->key, false).error().status, kInvalidValue) << "without a file";
  pair->first.close_now();
  EXPECT_EQ(shelf.open(made->key, false).error().status, kUnknown);
}

}  // namespace
}  // namespace partita::remote::server
