#include "server/session.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <numeric>

#include "server/testing/session_fixture.h"

namespace partita::remote::server {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, MemoryAndKernels) {
  start();
  load();
  const std::uint32_t before[] = {1, 2, 3, 4};
  EXPECT_TRUE(client->send(Alloc{{kFakeArena}, 256}));
  EXPECT_TRUE(client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(before))));
  const auto block = arguments(kFakeArena, 4, 10);
  EXPECT_TRUE(client->send(Launch{.kernel = {1}, .parameters = block}));
  const auto out = client->ask(CopyOut{{}, {kFakeArena}, 16});
  ASSERT_TRUE(out.came) << client->said;
  EXPECT_EQ(out.outcome, Outcome{});
  EXPECT_EQ(words(out.bulk), (std::vector<std::uint32_t>{11, 12, 13, 14}));
  EXPECT_EQ(client->said, "");
  EXPECT_TRUE(client->send(Free{{kFakeArena}}));
  EXPECT_EQ(fence(), 0);
  EXPECT_EQ(seat().device->memory_used(), 0u);
}

// A server that loads a module for long answers who asks whether it is there; what comes behind the
// module waits for it.
TEST_F(SessionTest, WhileAModuleIsLoadedPingsAreAnswered) {
  constexpr auto kLong = std::chrono::seconds(60);  // for tests that fail
  std::promise<void> go;
  std::atomic<bool> loaded = false;
  FakeBackend::Options backend;
  backend.loading = [&, gone = go.get_future().share()] {
    gone.wait_for(kLong);
    loaded = true;
  };
  start(backend, {.load_at_once = {}});
  load();
  const std::uint32_t before[] = {1, 2, 3, 4};
  client->send(Alloc{{kFakeArena}, 256});
  client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(before)));
  client->send(Launch{.kernel = {1}, .parameters = arguments(kFakeArena, 4, 10)});
  const std::uint32_t copy = client->ask_later(CopyOut{{}, {kFakeArena}, 16});
  for (int asked = 0; asked < 3; ++asked) EXPECT_TRUE(client->ask(Ping{}).came) << client->error;
  EXPECT_FALSE(loaded);
  EXPECT_FALSE(client->answers.contains(copy));
  go.set_value();
  const auto begun = std::chrono::steady_clock::now();
  while (!client->answers.contains(copy) && std::chrono::steady_clock::now() - begun < kLong)
    client->ask(Ping{});
  EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk),
            (std::vector<std::uint32_t>{11, 12, 13, 14}));
  EXPECT_EQ(client->said, "");
}

TEST_F(SessionTest, ALoadUnderWayIsWaitedForAtTheEnd) {
  start({}, {.load_at_once = {}});
  for (std::uint64_t module = 1; module <= 20; ++module) {
    const Digest digest = digest_of(bytes_of("fake"));
    client->send(ModulePut{digest, 0, 4}, bytes_of("fake"));
    client->send(ModuleLoad{{module}, digest});
  }
  EXPECT_TRUE(client->ask(Ping{}).came);
  channel->shut();
  for (int round = 0; round < 1000 && !seat().ended; ++round) server->step();
  EXPECT_TRUE(seat().ended);
}

TEST_F(SessionTest, CopiesThroughStagingAreTheSame) {
  SimOptions net;
  net.down.room = 64 << 20;
  start({.mapped = false}, {.staging = 1 << 20}, net);
  std::vector<std::uint32_t> data(3'000'000);
  std::iota(data.begin(), data.end(), 7);
  const std::uint64_t bytes = 12'000'256 / 256 * 256 + 256;
  EXPECT_TRUE(client->send(Alloc{{kFakeArena}, bytes}));
  EXPECT_TRUE(client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(data))));
  const auto out = client->ask(CopyOut{{}, {kFakeArena}, data.size() * 4});
  ASSERT_TRUE(out.came) << client->said;
  EXPECT_EQ(words(out.bulk), data);
}

// What is on its way to a device that does nothing is bounded: the rest stays with the client.
TEST_F(SessionTest, OnlySoManyBytesAreOnTheirWay) {
  SimOptions net;
  net.up.room = net.down.room = 64 << 20;
  start({.mapped = false, .manual = true}, {.staging = 8 << 20}, net);
  std::vector<std::uint32_t> data(5 << 20);  // five pieces of 4 MiB
  std::iota(data.begin(), data.end(), 7);
  client->send(Alloc{{kFakeArena}, 20 << 20});
  client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(data)));
  const std::uint32_t behind = client->ask_later(Ping{});
  int rounds = 0;
  for (; !client->read() && rounds < 9; ++rounds) {
    EXPECT_FALSE(seat().session->step().progressed);
    EXPECT_EQ(seat().device->run(), 3) << "and a look whether there is room";
  }
  EXPECT_EQ(rounds, 2) << "two pieces at a time, and the fifth with what is behind";
  EXPECT_TRUE(client->answers.contains(behind));
  const std::uint32_t copy = client->ask_later(CopyOut{{}, {kFakeArena}, 20 << 20});
  EXPECT_FALSE(client->read());
  EXPECT_EQ(seat().device->run(), 2);
  ASSERT_TRUE(client->read()) << client->error;
  EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk), data);
}

// Every use of what is not there is refused by number and reason, and harms nothing.
TEST_F(SessionTest, HandlesAreChecked) {
  start();
  load();
  const auto block = arguments(kFakeArena, 4, 10);
  const auto refused = [this](const std::string& why) {
    EXPECT_NE(fence(), 0);
    EXPECT_THAT(client->said, HasSubstr(why));
    client->said.clear();
    EXPECT_EQ(client->ask(Reset{}).outcome, Outcome{});  // errors stay until here
    EXPECT_EQ(fence(), 0);
    load();
  };
  client->send(Launch{.kernel = {9}, .parameters = block});
  refused("launch: there is no kernel 9");
  client->send(Launch{.stream = {3}, .kernel = {1}, .parameters = block});
  refused("launch: there is no stream 3");
  client->send(Launch{.kernel = {1}, .parameters = Bytes(block).first(15)});
  refused("15 bytes of parameters; the kernel has 16");
  client->send(Launch{.kernel = {1}, .block = {1025, 1, 1}, .parameters = block});
  refused("1024 threads are the most");
  client->send(Launch{.kernel = {1}, .shared_bytes = 48 * 1024 + 1, .parameters = block});
  refused("49152 may be used");
  client->send(StreamCreate{{5}}), client->send(StreamCreate{{5}});
  refused("stream 5 is there already");
  client->send(EventCreate{{5}}), client->send(EventDestroy{{5}}), client->send(EventDestroy{{5}});
  refused("event_destroy: there is no event 5");
  client->send(Alloc{{kFakeArena + 1}, 256});
  refused("not multiples of 256");
  client->send(Alloc{{kFakeArena - 256}, 256});
  refused("outside the arena");
  client->send(Alloc{{kFakeArena}, 512}), client->send(Alloc{{kFakeArena + 256}, 256});
  refused("something is allocated there");
  client->send(Free{{kFakeArena}});
  refused("nothing is allocated");
  client->send(Alloc{{kFakeArena}, 256});
  client->send(CopyIn{{}, {kFakeArena + 250}}, bytes_of("12345678"));
  refused("no allocation holds them");
  client->send(Alloc{{kFakeArena}, 256}), client->send(Alloc{{kFakeArena + 256}, 256});
  client->send(CopyDevice{{}, {kFakeArena}, {kFakeArena + 256}, 128, 128, 64, 4});
  refused("copying to 64 bytes");
  client->send(Alloc{{kFakeArena}, std::uint64_t{1} << 39});
  refused("are the session's limit");
  client->send(CallDone{{77}});
  refused("no call 0x4d is under way");
  client->send(ModuleLoad{{2}, Digest{}});
  refused("there is no image 0000");
  client->send(ModulePut{Digest{}, 0, 4}, bytes_of("fake"));
  refused("another digest");
  client->send(GraphLaunch{{1}, {}});
  refused("there is no executable graph 1");
}

// The limit is of all that is allocated at the same time, to the byte; what is freed is free.
TEST_F(SessionTest, AllocationsTogetherKeepTheSessionsLimit) {
  start({}, {.memory = 1024});
  const auto said_of_alloc = [this](std::uint64_t at, std::uint64_t bytes) {
    client->said.clear();
    client->send(Alloc{{kFakeArena + at}, bytes});
    const Status status = fence();
    const std::string said = client->said;
    if (status != 0) {
      EXPECT_EQ(status, kOutOfMemory);
      EXPECT_THAT(said, HasSubstr("1024 are the session's limit"));
    }
    return status == 0 ? "taken" : "refused";
  };
  EXPECT_STREQ(said_of_alloc(0, 512), "taken");
  EXPECT_STREQ(said_of_alloc(512, 256), "taken");
  EXPECT_STREQ(said_of_alloc(1024, 256), "taken");
  EXPECT_EQ(seat().device->memory_used(), 1024u);
  EXPECT_STREQ(said_of_alloc(4096, 256), "refused");
  EXPECT_EQ(seat().device->memory_used(), 1024u);
}

TEST_F(SessionTest, WhatIsFreedMayBeAllocatedAgain) {
  start({}, {.memory = 512});
  for (int again = 0; again < 5; ++again) {
    client->send(Alloc{{kFakeArena}, 512});
    client->send(Free{{kFakeArena}});
    EXPECT_EQ(fence(), 0) << client->said;
  }
}

// An allocation ends where the arena does, and not a byte later.
TEST_F(SessionTest, TheArenaHasAnEnd) {
  start();
  const std::uint64_t end = kFakeArena + (std::uint64_t{1} << 40);
  client->send(Alloc{{end - 256}, 256});
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(Alloc{{end - 512}, 256});
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_EQ(seat().device->memory_used(), 512u);
  client->send(Alloc{{end - 1024}, 512});
  client->send(Alloc{{end}, 256});
  EXPECT_NE(fence(), 0);
  EXPECT_THAT(client->said, HasSubstr("outside the arena"));
  EXPECT_EQ(client->ask(Reset{}).outcome, Outcome{});
  client->said.clear();
  client->send(Alloc{{end - 256}, 512});
  EXPECT_NE(fence(), 0);
  EXPECT_THAT(client->said, HasSubstr("512 bytes at"));
  EXPECT_THAT(client->said, HasSubstr("outside the arena"));
}

TEST_F(SessionTest, WhatIsNoFrameEndsTheSession) {
  start();
  EXPECT_FALSE(client->ask(Hello{.table = protocol_hash()}).came);
  EXPECT_THAT(client->said, HasSubstr("hello after the hello"));
  EXPECT_TRUE(seat().ended);
}

TEST_F(SessionTest, OtherVersionsAndWrongTokensAreTurnedAway) {
  server = std::make_unique<TestServer>();
  server->token = "secret";
  for (const auto& [hello, why] :
       {std::pair{Hello{.table = 1, .token = "secret"}, "different versions"},
        std::pair{Hello{.table = protocol_hash(), .token = "secreT"}, "the token is not"},
        std::pair{Hello{.table = protocol_hash(), .token = "Secret"}, "the token is not"},
        std::pair{Hello{.table = protocol_hash(), .token = "secret1"}, "the token is not"},
        std::pair{Hello{.table = protocol_hash(), .token = "secre"}, "the token is not"},
        std::pair{Hello{.table = protocol_hash()}, "the token is not"}}) {
    channel = *server->net.connect("sim", std::chrono::seconds(1));
    client = std::make_unique<TestClient>(*channel);
    const auto answer = client->ask(hello);
    EXPECT_TRUE(answer.came);
    EXPECT_NE(answer.outcome.status, 0);
    EXPECT_THAT(client->said, HasSubstr(why));
    EXPECT_TRUE(server->seats.back()->ended);
    EXPECT_THAT(server->seats.back()->reason, HasSubstr(why));
  }
  channel = *server->net.connect("sim", std::chrono::seconds(1));
  client = std::make_unique<TestClient>(*channel);
  EXPECT_EQ(client->ask(Hello{.table = protocol_hash(), .token = "secret"}).outcome, Outcome{});
}

TEST_F(SessionTest, AnswersOvertakeAndCallsHoldTheirStream) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(Set{.to = {kFakeArena}, .element = 4, .count = 64});
  client->send(StreamCreate{{1}, kNonBlocking}), client->send(StreamCreate{{2}, kNonBlocking});
  const auto block = arguments(kFakeArena, 1, 5);
  client->send(HostCall{{1}, {42}});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = block});
  const std::uint32_t waits = client->ask_later(StreamSync{{1}});
  EXPECT_EQ(client->ask(StreamQuery{{1}}).outcome.status, kNotReady);
  EXPECT_EQ(client->ask(StreamSync{{2}}).outcome, Outcome{});
  EXPECT_EQ(words(client->ask(CopyOut{{2}, {kFakeArena}, 4}).bulk)[0], 0u);
  EXPECT_FALSE(client->answers.contains(waits));
  ASSERT_EQ(client->notices.size(), 1u);
  EXPECT_EQ(decode<Call>(client->notices[0].body)->token.value, 42u);
  client->send(CallDone{{42}});
  EXPECT_EQ(fence(), 0);
  EXPECT_TRUE(client->answer_of<StreamSync>(waits).came);
  EXPECT_EQ(words(client->ask(CopyOut{{1}, {kFakeArena}, 4}).bulk)[0], 5u);
}

// Freed memory goes once what was enqueued has finished; its addresses can be had again after.
TEST_F(SessionTest, FreeWaitsForWork) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(StreamCreate{{1}});
  client->send(HostCall{{1}, {1}});
  const auto block = arguments(kFakeArena, 1, 5);
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = block});
  client->send(Free{{kFakeArena}});
  client->send(Alloc{{kFakeArena}, 512});  // waits, and all behind it
  client->send(Set{.stream = {1}, .to = {kFakeArena}, .value = 9, .element = 4, .count = 1});
  const std::uint32_t copy = client->ask_later(CopyOut{{1}, {kFakeArena}, 4});
  EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  EXPECT_EQ(seat().device->memory_used(), 256u);
  EXPECT_FALSE(client->answers.contains(copy));
  client->send(CallDone{{1}});
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk)[0], 9u);
  EXPECT_EQ(seat().device->memory_used(), 512u);
}

// What was read ahead may have to wait once more.
TEST_F(SessionTest, AllocationsMayWaitTwice) {
  start();
  client->send(StreamCreate{{1}});
  for (int again = 0; again < 3; ++again) {
    client->send(Alloc{{kFakeArena}, 256});
    for (const std::uint64_t call : {1, 2}) {
      client->send(HostCall{{1}, {call}});
      client->send(Free{{kFakeArena}});
      client->send(Alloc{{kFakeArena}, 256 + 256 * call});
    }
    client->send(
        Set{.stream = {1}, .to = {kFakeArena + 512}, .value = 9, .element = 4, .count = 1});
    const std::uint32_t copy = client->ask_later(CopyOut{{1}, {kFakeArena + 512}, 4});
    for (const std::uint64_t call : {1, 2}) {
      for (int i = 0; i < 2; ++i) ASSERT_EQ(client->ask(Ping{}).outcome, Outcome{});
      EXPECT_EQ(seat().device->memory_used(), 256 * call);
      client->send(CallDone{{call}});
    }
    ASSERT_EQ(fence(), 0) << client->said;
    EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk)[0], 9u);
    EXPECT_EQ(seat().device->memory_used(), 768u);
    client->send(Free{{kFakeArena}});
  }
}

// The end of the call that all waits for is found behind copies, images and many frames.
TEST_F(SessionTest, TheEndOfACallIsFoundBehindWhatWaitsForIt) {
  SimOptions net;
  net.up.room = 1'500'000, net.down.room = 64 << 20;
  for (const bool mapped : {true, false}) {
    start({.mapped = mapped}, {.staging_at_most = 8 << 20, .deferred = 3}, net);
    for (int again = 0; again < 2; ++again) {  // what was read ahead is no more, then
      client->send(Alloc{{kFakeArena}, 256});
      client->send(StreamCreate{{1}});
      client->send(HostCall{{1}, {1}});
      for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
      client->send(Free{{kFakeArena}});
      client->send(Alloc{{kFakeArena}, 8 << 20});  // waits, and all behind it
      std::vector<std::uint32_t> data(1'250'000);
      std::iota(data.begin(), data.end(), 7);
      client->send(CopyIn{{1}, {kFakeArena}}, std::as_bytes(std::span(data)));
      client->send(CopyIn{{1}, {kFakeArena + (8 << 20) - 1}}, bytes_of("x"));
      load();
      for (int i = 0; i < 9; ++i)
        client->send(
            Launch{.stream = {1}, .kernel = {1}, .parameters = arguments(kFakeArena, 1, 5)});
      const std::uint32_t copy = client->ask_later(CopyOut{{1}, {kFakeArena}, data.size() * 4});
      client->send(CallDone{{1}});
      EXPECT_EQ(fence(), 0) << client->said << client->error;
      data[0] += 45;
      EXPECT_EQ(client->ask(CopyOut{{}, {kFakeArena + (8 << 20) - 1}, 1}).bulk,
                std::vector{std::byte{'x'}});
      EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk), data);
      EXPECT_EQ(seat().device->memory_used(), 8u << 20);
      client->send(Free{{kFakeArena}}), client->send(ModuleUnload{{1}}),
          client->send(StreamDestroy{{1}});
      EXPECT_EQ(fence(), 0) << client->said;
    }
  }
}

// A client that leaves amid what is read ahead has left.
TEST_F(SessionTest, WhoLeavesAmidACopyIsGone) {
  start();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(StreamCreate{{1}});
  client->send(HostCall{{1}, {1}});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  client->send(Free{{kFakeArena}});
  client->send(Alloc{{kFakeArena}, 512});
  ASSERT_TRUE(client->flush());
  auto frame = frame_of(CopyIn{{1}, {kFakeArena}});
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  header.bulk_bytes = 512;
  std::memcpy(frame.data(), &header, sizeof(header));
  const std::span<const std::byte> part(frame);
  ASSERT_TRUE(channel->write({&part, 1}, std::chrono::seconds(1)));
  server->step();
  EXPECT_FALSE(seat().ended);
  channel->shut();
  server->step();
  EXPECT_TRUE(seat().ended);
  EXPECT_EQ(seat().reason, "the client is gone");
}

// Calls of one name end in their order, and once each.
TEST_F(SessionTest, CallsOfOneNameEndOnceEach) {
  start();
  for (const std::uint64_t stream : {1, 2}) {
    client->send(StreamCreate{{stream}, kNonBlocking});
    client->send(HostCall{{stream}, {5}});
  }
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  EXPECT_EQ(client->notices.size(), 2u);
  client->send(CallDone{{5}});
  EXPECT_EQ(client->ask(StreamQuery{{1}}).outcome.status, 0);
  EXPECT_EQ(client->ask(StreamQuery{{2}}).outcome.status, kNotReady);
  client->send(CallDone{{5}});
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(CallDone{{5}});
  EXPECT_EQ(fence(), kInvalidValue);
  EXPECT_THAT(client->said, HasSubstr("no call 0x5 is under way"));
}

// A product's matrices must be there, when it is asked for and when a graph runs it.
TEST_F(SessionTest, ProductsNeedTheirMatrices) {
  start();
  client->send(Alloc{{kFakeArena}, 256}), client->send(Alloc{{kFakeArena + 256}, 256});
  client->send(StreamCreate{{1}});
  const float two = 2, three = 3;
  client->send(CopyIn{{}, {kFakeArena}}, std::as_bytes(std::span(&two, 1)));
  client->send(CopyIn{{}, {kFakeArena + 256}}, std::as_bytes(std::span(&three, 1)));
  const auto product = [](std::uint64_t stream, std::uint64_t c) {
    return Gemm{.stream = {stream},
                .m = 1,
                .n = 1,
                .k = 1,
                .a = {kFakeArena},
                .b = {kFakeArena + 256},
                .c = {kFakeArena + c},
                .alpha = 0x3ff0'0000'0000'0000};
  };
  client->send(CaptureBegin{{1}, 0});
  client->send(product(1, 260));
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, 0) << client->said;
  EXPECT_EQ(client->ask(GraphInstantiate{{7}, {9}}).outcome.status, 0);
  client->send(GraphLaunch{{9}, {}});
  float six = 0;
  const auto out = client->ask(CopyOut{{}, {kFakeArena + 260}, 4}).bulk;
  ASSERT_EQ(out.size(), 4u) << client->said;
  std::memcpy(&six, out.data(), 4);
  EXPECT_EQ(six, 6);
  client->send(product(0, 512));
  EXPECT_EQ(fence(), kInvalidValue);
  EXPECT_THAT(client->said, HasSubstr("a matrix 4 bytes at 0x700000000200"));
  client->send(Free{{kFakeArena}}), client->send(GraphLaunch{{9}, {}});
  fence();
  EXPECT_THAT(client->said, HasSubstr("a node uses 4 bytes at 0x700000000000, which were freed"));
}

// The allocation is refused where too much would have to be read ahead to find it; the rest is
// done.
TEST_F(SessionTest, WhatIsReadAheadOfACallsEndIsBounded) {
  SimOptions net;
  net.up.room = 64 << 20;
  const std::vector<std::byte> data(3 << 20, std::byte{7});
  for (const bool bytes : {true, false}) {
    start({}, {.staging_at_most = 2 << 20, .queued = 10}, net);
    client->send(Alloc{{kFakeArena}, 4 << 20});
    client->send(Alloc{{kFakeArena + (4 << 20)}, 4 << 20});
    client->send(StreamCreate{{1}});
    client->send(HostCall{{1}, {1}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
    client->send(Free{{kFakeArena}});
    client->send(Alloc{{kFakeArena}, 256});
    if (bytes) client->send(CopyIn{{}, {kFakeArena + (4 << 20)}}, data);
    for (int i = 0; i < (bytes ? 1 : 12); ++i) client->send(EventDestroy{{1}});
    client->send(CallDone{{1}});
    EXPECT_EQ(fence(), kOutOfMemory) << client->error;
    EXPECT_THAT(client->said, HasSubstr("alloc: too much waits for a function of the client"));
    const auto out = client->ask(CopyOut{{}, {kFakeArena + (4 << 20)}, 3 << 20}).bulk;
    EXPECT_EQ(out == data, bytes);
    EXPECT_EQ(seat().session->counts().refused, bytes ? 2u : 13u);
    EXPECT_EQ(seat().device->memory_used(), 4u << 20);
  }
}

// Only so much is read ahead of what has to wait.
TEST_F(SessionTest, OnlySoMuchIsReadAhead) {
  start({.manual = true}, {.deferred = 3});
  const Set set{.to = {kFakeArena}, .element = 4, .count = 1};
  client->send(Alloc{{kFakeArena}, 256}), client->send(set), client->send(Free{{kFakeArena}});
  client->send(Alloc{{kFakeArena}, 512});  // waits
  client->send(set);
  EXPECT_TRUE(client->ask(Ping{}).came);
  client->send(set);
  const std::uint32_t unheard = client->ask_later(Ping{});
  EXPECT_FALSE(client->read());
  EXPECT_GT(seat().device->run(), 0);
  EXPECT_TRUE(client->read()) << client->error;
  EXPECT_TRUE(client->answers.contains(unheard));
  EXPECT_EQ(seat().device->memory_used(), 512u);
}

// Nor so many bytes, to the byte; what was done is counted no more.
TEST_F(SessionTest, OnlySoManyBytesAreReadAhead) {
  const std::string name(4096, 'x');
  const std::size_t two = encoded_size(Alloc{}) + encoded_size(KernelOpen{.name = name});
  const Set set{.to = {kFakeArena}, .element = 4, .count = 1};
  start({.manual = true}, {.staging = two});
  client->send(Alloc{{kFakeArena}, 256}), client->send(set), client->send(Free{{kFakeArena}});
  client->send(Alloc{{kFakeArena}, 256}), client->send(KernelOpen{{1}, {1}, name, {}});
  client->ask_later(Ping{});
  EXPECT_FALSE(client->read());
  start({.manual = true}, {.staging = two + 1});
  client->send(Alloc{{kFakeArena}, 256});
  for (int again = 0; again < 3; ++again) {
    client->send(set), client->send(Free{{kFakeArena}});
    client->send(Alloc{{kFakeArena}, 256});  // waits
    client->send(KernelOpen{{1}, {1}, name, {}});
    EXPECT_TRUE(client->ask(Ping{}).came);
    client->send(KernelOpen{{1}, {1}, name, {}});
    const std::uint32_t unheard = client->ask_later(Ping{});
    EXPECT_FALSE(client->read());
    EXPECT_GT(seat().device->run(), 0);
    while (!client->answers.contains(unheard)) ASSERT_TRUE(client->read()) << client->error;
  }
}

// A client that takes nothing more ends its session, and nobody else's.
TEST_F(SessionTest, WhoTakesNothingMoreIsGone) {
  SimOptions net;
  net.down.room = 1000;
  start({}, {}, net);
  client->send(Alloc{{kFakeArena}, 1 << 20});
  client->ask_later(CopyOut{{}, {kFakeArena}, 1 << 20});
  while (client->read()) continue;
  EXPECT_TRUE(seat().ended);
  EXPECT_THAT(seat().reason, HasSubstr("simulated connection"));
}

// A device that cannot be had again ends the session, which says why.
TEST_F(SessionTest, ADeviceThatIsGoneEndsIt) {
  start();
  server->reopens = false;
  EXPECT_FALSE(client->ask(Reset{}).came);
  EXPECT_THAT(client->said, HasSubstr("the device cannot be opened again: device: it fell off"));
  EXPECT_TRUE(seat().ended);
}

// Once a call has ended there is no reason to refuse what has to wait.
TEST_F(SessionTest, ACallThatHasEndedBoundsNothing) {
  SimOptions net;
  net.up.room = 64 << 20;
  start({.mapped = false}, {.staging = 1 << 20, .staging_at_most = 8 << 20}, net);
  const std::vector<std::byte> data(12 << 20, std::byte{7});
  client->send(Alloc{{kFakeArena}, 12 << 20});
  client->send(HostCall{{}, {5}});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  client->send(CallDone{{5}});
  client->send(CopyIn{{}, {kFakeArena}}, data);
  EXPECT_EQ(fence(), 0) << client->said;
}

// Who sends more than the device can do is not listened to until it has done some of it.
TEST_F(SessionTest, ADeviceWithTooMuchToDoIsWaitedFor) {
  start({.manual = true}, {.queued = 4});
  client->send(Alloc{{kFakeArena}, 256});
  const auto set = [this] {
    client->send(Set{.to = {kFakeArena}, .element = 4, .count = 1});
    return client->ask_later(Ping{});
  };
  for (int i = 0; i < 5; ++i) {
    const std::uint32_t heard = set();
    ASSERT_TRUE(client->read());
    EXPECT_TRUE(client->answers.contains(heard));
  }
  const std::uint32_t unheard = set();
  EXPECT_FALSE(client->read());
  EXPECT_EQ(seat().device->run(2), 2);
  EXPECT_TRUE(client->read()) << client->error;
  EXPECT_TRUE(client->answers.contains(unheard));
}

TEST_F(SessionTest, AFaultStaysUntilReset) {
  start();
  load();
  client->send(KernelOpen{{2}, {1}, "crash", {}});
  client->send(Launch{.kernel = {2}});
  EXPECT_EQ(fence(), kIllegalAddress);
  EXPECT_THAT(client->said, HasSubstr("it crashed"));
  client->send(Alloc{{kFakeArena}, 256});
  EXPECT_EQ(client->ask(CopyOut{{}, {kFakeArena}, 4}).outcome,
            (Outcome{kIllegalAddress, kIllegalAddress}));
  EXPECT_EQ(client->ask(StreamSync{}).outcome.status, kIllegalAddress);
  EXPECT_EQ(client->ask(Reset{}).outcome, Outcome{});
  EXPECT_EQ(fence(), 0);
  EXPECT_EQ(seat().device->objects(), 0u);
}

TEST_F(SessionTest, EventsOrderStreams) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(StreamCreate{{1}, kNonBlocking}), client->send(StreamCreate{{2}, kNonBlocking});
  client->send(EventCreate{{1}}), client->send(EventCreate{{2}});
  client->send(HostCall{{1}, {1}});
  client->send(Set{.stream = {1}, .to = {kFakeArena}, .value = 3, .element = 4, .count = 1});
  client->send(EventRecord{{1}, {1}});
  client->send(StreamWaitEvent{{2}, {1}});
  const auto block = arguments(kFakeArena, 1, 4);
  client->send(Launch{.stream = {2}, .kernel = {1}, .parameters = block});
  client->send(EventRecord{{2}, {2}});
  EXPECT_EQ(client->ask(EventQuery{{2}}).outcome.status, kNotReady);
  EXPECT_EQ(client->ask(EventElapsed{{1}, {2}}).outcome.status, kNotReady);
  const std::uint32_t sync = client->ask_later(EventSync{{2}});
  client->send(CallDone{{1}});
  EXPECT_EQ(fence(), 0);
  EXPECT_TRUE(client->answer_of<EventSync>(sync).came);
  EXPECT_EQ(words(client->ask(CopyOut{{2}, {kFakeArena}, 4}).bulk)[0], 7u);
  EXPECT_EQ(client->ask(EventElapsed{{1}, {2}}).reply.nanoseconds, 1u);
}

// A copy out behind a function of the client: of what was there then, and the stream goes on.
TEST_F(SessionTest, CopiesOutKeepTheirPlace) {
  for (const bool mapped : {true, false}) {
    start({.mapped = mapped});
    client->send(Alloc{{kFakeArena}, 256});
    client->send(Set{.to = {kFakeArena}, .value = 3, .element = 4, .count = 1});
    client->send(StreamCreate{{1}});
    client->send(HostCall{{1}, {5}});
    const std::uint32_t copy = client->ask_later(CopyOut{{1}, {kFakeArena}, 4});
    client->send(Set{.stream = {1}, .to = {kFakeArena}, .value = 9, .element = 4, .count = 1});
    const std::uint32_t sync = client->ask_later(StreamSync{{1}});
    EXPECT_TRUE(client->ask(Ping{}).came);
    EXPECT_FALSE(client->answers.contains(copy));
    client->send(CallDone{{5}});
    EXPECT_EQ(fence(), 0) << client->said;
    EXPECT_EQ(words(client->answer_of<CopyOut>(copy).bulk), std::vector<std::uint32_t>{3});
    EXPECT_TRUE(client->answer_of<StreamSync>(sync).came);
    EXPECT_EQ(words(client->ask(CopyOut{{1}, {kFakeArena}, 4}).bulk)[0], 9u);
  }
}

// With an answer that says no comes a reason, in words.
TEST_F(SessionTest, RefusalsThatAreAnswersAreToldToo) {
  start();
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome.status, kInvalidHandle);
  EXPECT_THAT(client->said, HasSubstr("graph_instantiate: there is no graph 1"));
  EXPECT_EQ(seat().session->counts().refused, 1u);
}

// ---- limits of a session at their edge ----

TEST_F(SessionTest, SoManyReasonsAreTold) {
  start({}, {.reasons = 3});
  load();
  client->said.clear();
  for (std::uint64_t i = 0; i < 10; ++i) client->send(Free{{kFakeArena + 256 * i}});
  EXPECT_EQ(fence(), kInvalidValue);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (std::size_t at = client->said.find(text); at != std::string::npos;
         at = client->said.find(text, at + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("nothing is allocated at"), 3) << client->said;
  EXPECT_EQ(count("further reasons are not told"), 1);
  // What its kernels print is no reason.
  client->send(KernelOpen{{2}, {1}, "print", {}});
  client->send(Launch{.kernel = {2}});
  fence();
  EXPECT_EQ(client->printed, "hello\n\n");
}

// What a check finds is told and no fault; what is long is told in pieces.
TEST_F(SessionTest, WhatIsFoundAndWhatIsLongIsTold) {
  start();
  load();
  client->send(KernelOpen{{2}, {1}, "find", {}});
  client->send(Launch{.kernel = {2}});
  EXPECT_EQ(fence(), 0);
  EXPECT_EQ(client->said, "found one\n\n");
  client->said.clear();
  seat().session->end(std::string(8000 - 19, 'x') + "end");
  while (client->read()) continue;
  EXPECT_EQ(client->said, "the session ends: " + std::string(4000 - 18, 'x') + "\n" +
                              std::string(3999, 'x') + "e\n" + "nd\n\n");
}

// Frames that may not come end the session, and it says which.
TEST_F(SessionTest, FramesOutOfPlaceAreNamed) {
  const auto ends = [this](std::vector<std::byte> frame, const std::string& why) {
    start();
    const std::span<const std::byte> part(frame);
    ASSERT_TRUE(channel->write({&part, 1}, std::chrono::seconds(1)));
    while (client->read()) continue;
    EXPECT_THAT(client->said, HasSubstr("the session ends: " + why));
    EXPECT_EQ(seat().reason, why);
  };
  const auto with = [](std::vector<std::byte> frame, auto change) {
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof(header));
    change(header);
    std::memcpy(frame.data(), &header, sizeof(header));
    return frame;
  };
  const auto request = [&](std::vector<std::byte> frame, std::uint32_t number) {
    return with(std::move(frame), [number](FrameHeader& header) { header.request = number; });
  };
  ends(request(frame_of(Free{}), 5), "free with request 5");
  ends(frame_of(Fence{}), "fence with request 0");
  ends(with(frame_of(Free{}), [](FrameHeader& header) { header.bulk_bytes = 1; }),
       "free with bulk");
  ends(with(frame_of(Free{}), [](FrameHeader& header) { header.code = 127; }),
       "no operation has code 127");
  ends(with(frame_of(Free{}), [](FrameHeader& header) { header.code = 128; }),
       "no operation has code 128");
  ends(with(frame_of(Free{}), [](FrameHeader& header) { header.code = Alloc::kSpec.code; }),
       "a malformed alloc");
  auto twice = request(frame_of(StreamSync{}), 7);
  start();
  client->send(HostCall{{}, {1}});
  ASSERT_TRUE(client->flush());
  for (int i = 0; i < 2; ++i) {
    const std::span<const std::byte> part(twice);
    ASSERT_TRUE(channel->write({&part, 1}, std::chrono::seconds(1)));
  }
  while (client->read()) continue;
  EXPECT_THAT(client->said, HasSubstr("request 7 is still to be answered"));
}

TEST_F(SessionTest, NothingGoesBeforeTheHello) {
  for (const bool ping : {false, true}) {
    TestServer own;
    channel = *own.net.connect("sim", std::chrono::seconds(1));
    client = std::make_unique<TestClient>(*channel);
    if (ping)
      EXPECT_FALSE(client->ask(Ping{}).came);
    else
      EXPECT_FALSE(client->ask(Fence{}).came);
    EXPECT_THAT(client->said, HasSubstr(ping ? "ping before the hello" : "fence before the hello"));
    client.reset();
    channel.reset();
  }
}

// A session that nobody has given a device, step by step.
class SessionSteps : public testing::Test {
 protected:
  SimNet net{SimOptions{}};
  const std::unique_ptr<Listener> listener = *net.listen("sim");
  const std::unique_ptr<Channel> channel = *net.connect("sim", std::chrono::seconds(1));
  const std::unique_ptr<Channel> theirs = std::move(listener->accept(Nanos(0))->channel);
  MemoryImages images;
  Session session{*theirs, images, "", {}};
  TestClient client{*channel};
};

// Nor before its answer: whoever waits for a device has none.
TEST_F(SessionSteps, NothingGoesBeforeTheAnswerOfTheHello) {
  client.ask_later(Hello{.table = protocol_hash()});
  client.ask_later(Ping{});
  client.ask_later(Fence{});
  net.run_for(std::chrono::seconds(1));
  EXPECT_TRUE(session.step().ended);
  EXPECT_EQ(session.reason(), "fence before the hello was answered");
}

// Answers that are owed are bounded: nothing more is read until one of them is due.
TEST_F(SessionTest, OnlySoManyAnswersAreOwed) {
  start({.manual = true}, {.waiting = 2});
  client->send(Alloc{{kFakeArena}, 256});
  client->send(Set{.to = {kFakeArena}, .element = 4, .count = 1});
  const std::uint32_t first = client->ask_later(StreamSync{});
  EXPECT_TRUE(client->ask(Ping{}).came);
  client->ask_later(StreamSync{});
  const std::uint32_t unheard = client->ask_later(Ping{});
  EXPECT_FALSE(client->read());
  EXPECT_GT(seat().device->run(), 0);
  while (!client->answers.contains(unheard)) ASSERT_TRUE(client->read()) << client->error;
  EXPECT_TRUE(client->answers.contains(first));
}

// What a step did, and whether there is more: what whoever drives a session goes by.
TEST_F(SessionSteps, SayWhatTheyDid) {
  const auto step = [&] {
    net.run_for(std::chrono::seconds(1));
    const Session::Step now = session.step();
    EXPECT_FALSE(now.ended);
    return std::vector<bool>{now.progressed, now.busy, now.idle};
  };
  using Flags = std::vector<bool>;
  EXPECT_EQ(step(), (Flags{false, false, true})) << "nobody has said anything";
  EXPECT_EQ(session.backend_descriptor(), -1);
  client.ask_later(Hello{.table = protocol_hash()});
  EXPECT_EQ(step(), (Flags{true, false, true}));
  EXPECT_TRUE(session.wanted());
  EXPECT_FALSE(session.wanted()) << "once";
  auto made = std::make_unique<FakeBackend>(FakeBackend::Options{.manual = true});
  FakeBackend& device = *made;
  session.grant(1, std::move(made), {});
  EXPECT_GE(session.backend_descriptor(), 0);
  EXPECT_EQ(step(), (Flags{false, false, true}));
  client.send(HostCall{{}, {5}});
  ASSERT_TRUE(client.flush());
  EXPECT_EQ(step(), (Flags{true, false, false})) << "a call is to be heard of";
  EXPECT_EQ(step(), (Flags{false, false, false}));
  device.run();
  EXPECT_EQ(step(), (Flags{true, false, true})) << "it was called";
  client.send(CallDone{{5}});
  for (int i = 0; i < 600; ++i) client.send(EventDestroy{{1}});
  ASSERT_TRUE(client.flush());
  EXPECT_EQ(step(), (Flags{true, true, true})) << "512 at a time";
  EXPECT_EQ(session.counts().refused, 511u);
  EXPECT_EQ(step(), (Flags{true, false, true}));
  EXPECT_EQ(session.counts().refused, 600u);
  for (int i = 0; i < 511; ++i) client.send(EventDestroy{{1}});
  ASSERT_TRUE(client.flush());
  EXPECT_EQ(step(), (Flags{true, false, true})) << "there is no more";
}

// What a client may hear of the device: its quota is the smaller of limit and memory.
TEST_F(SessionTest, TheHelloSaysWhatThereIs) {
  for (const std::uint64_t limit : {std::uint64_t{1} << 20, std::uint64_t{1} << 40}) {
    server = std::make_unique<TestServer>(SimOptions{}, FakeBackend::Options{.memory = 3 << 20},
                                          SessionLimits{.memory = limit});
    channel = *server->net.connect("sim", std::chrono::seconds(1));
    client = std::make_unique<TestClient>(*channel);
    const auto hello = client->ask(Hello{.table = protocol_hash()});
    ASSERT_TRUE(hello.came);
    EXPECT_EQ(hello.reply.session, 1u);
    EXPECT_EQ(hello.reply.quota, std::min<std::uint64_t>(limit, 3 << 20));
    EXPECT_EQ(hello.reply.total_memory, std::uint64_t{3} << 20);
    EXPECT_EQ(hello.reply.arena_bytes, std::uint64_t{1} << 40);
    EXPECT_EQ(hello.reply.granule, 256u);
    EXPECT_EQ(hello.reply.device, "Fake");
    EXPECT_EQ(hello.reply.driver_version, 13'000u);
    EXPECT_EQ(hello.reply.backend, "fake");
    EXPECT_EQ(hello.reply.uuid.size(), 16u);
    EXPECT_EQ(hello.reply.attributes.size(), 120u * 4);
  }
}

TEST_F(SessionTest, EverythingIsCounted) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 512});
  client->send(CopyIn{{}, {kFakeArena}}, bytes_of("12345678"));
  client->send(Launch{.kernel = {1}, .parameters = arguments(kFakeArena, 2, 1)});
  client->send(Free{{kFakeArena + 256}});
  EXPECT_EQ(client->ask(CopyOut{{}, {kFakeArena}, 4}).bulk.size(), 4u);
  const SessionCounts counts = seat().session->counts();
  EXPECT_EQ(counts.operations, 9u) << "hello, three to load, five";
  EXPECT_EQ(counts.launches, 1u);
  EXPECT_EQ(counts.refused, 1u);
  EXPECT_EQ(counts.bytes_in, 4u + 8u);
  EXPECT_EQ(counts.bytes_out, 4u);
  EXPECT_EQ(counts.memory, 512u);
  EXPECT_EQ(client->ask(Reset{}).outcome, Outcome{});
  EXPECT_EQ(seat().session->counts().memory, 0u);
}

// A fence is for all that was enqueued, on whatever stream.
TEST_F(SessionTest, AFenceWaitsForEveryStream) {
  for (const std::uint32_t flags : {0u, kNonBlocking + 0u}) {
    start();
    client->send(StreamCreate{{1}, flags, 0});
    client->send(HostCall{{1}, {5}});
    const std::uint32_t fenced = client->ask_later(Fence{});
    EXPECT_TRUE(client->ask(Ping{}).came);
    EXPECT_TRUE(client->ask(Ping{}).came);
    EXPECT_FALSE(client->answers.contains(fenced)) << flags;
    client->send(CallDone{{5}});
    EXPECT_EQ(fence(), 0);
    EXPECT_TRUE(client->answer_of<Fence>(fenced).came);
  }
}

// While a function of the client holds a stream what waits behind it is bounded, and what is more
// is refused: else the call's end would never be read.
TEST_F(SessionTest, WhatWaitsForAFunctionOfTheClientIsBounded) {
  SimOptions net;
  net.up.room = 64 << 20;
  start({.mapped = false}, {.staging = 1 << 20, .staging_at_most = 8 << 20, .queued = 20}, net);
  const std::vector<std::byte> data(12 << 20, std::byte{7});
  client->send(Alloc{{kFakeArena}, 12 << 20});
  client->send(StreamCreate{{1}, kNonBlocking});
  client->send(HostCall{{1}, {5}});
  EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  client->send(CopyIn{{1}, {kFakeArena}}, data);
  EXPECT_EQ(client->ask(Ping{}).outcome.sticky, kOutOfMemory);
  EXPECT_THAT(client->said, HasSubstr("copy_in: too much waits for a function of the client"));
  client->said.clear();
  for (int i = 0; i < 30; ++i) {
    client->send(Set{.stream = {1}, .to = {kFakeArena}, .element = 1, .count = 1});
    EXPECT_TRUE(client->ask(Ping{}).came);
  }
  EXPECT_THAT(client->said, HasSubstr("set: too much waits for a function of the client"));
  client->send(CallDone{{5}});
  EXPECT_NE(fence(), 0);
  EXPECT_EQ(client->ask(Reset{}).outcome, Outcome{});
  EXPECT_EQ(fence(), 0);
}

TEST_F(SessionTest, CopiesOutForLaterAreBounded) {
  start({}, {.staging_at_most = 512});
  client->send(Alloc{{kFakeArena}, 1024});
  client->send(CopyOutLater{{}, {kFakeArena}, 512, {1}});
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(CopyOutLater{{}, {kFakeArena}, 513, {2}});
  EXPECT_EQ(fence(), kOutOfMemory);
  EXPECT_THAT(client->said, HasSubstr("513 bytes at once; 512 are the limit"));
  client->send(CopyOutLater{{}, {kFakeArena + 1024}, 1, {3}});
  fence();
  EXPECT_THAT(client->said, HasSubstr("copying out 1 bytes at 0x700000000400: no allocation"));
  ASSERT_EQ(client->notices.size(), 1u);
  EXPECT_EQ(client->notices[0].bulk.size(), 512u);
  client->send(CopyOutLater{{}, {}, 0, {4}});
  fence();
  EXPECT_EQ(client->notices.size(), 2u) << "nothing is copied at once, and told";
}

// An image comes in as many pieces as the network makes of it.
TEST_F(SessionTest, ImagesComeInPieces) {
  SimOptions net;
  net.up.room = 70'001;
  start({}, {}, net);
  for (const std::size_t size : {1, 1 << 20, (1 << 20) + 1, 3'000'000}) {
    std::string image(size, 'x');
    for (std::size_t i = 0; i < image.size(); i += 999) image[i] = static_cast<char>(i);
    const Digest digest = digest_of(bytes_of(image));
    client->send(ModulePut{digest, 0, image.size()}, bytes_of(image));
    EXPECT_EQ(client->ask(ModuleHave{digest}).reply.have, 1u) << size << client->said;
    EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
  }
}

// Images are as large as they say, and of the digest that they say; both are the client's word.
TEST_F(SessionTest, ImagesAreCheckedBeforeTheyAreKept) {
  start();
  const Digest digest = digest_of(bytes_of("fake"));
  client->send(ModulePut{digest, 0, 4}, {});
  fence();
  EXPECT_THAT(client->said, HasSubstr("an image of 0 bytes, 4 unpacked; 268435456 are the limit"));
  client->send(ModulePut{digest, 0, kMaxImageBytes + 1}, bytes_of("fake"));
  fence();
  EXPECT_THAT(client->said, HasSubstr("an image of 4 bytes, 268435457 unpacked"));
  client->send(ModulePut{digest, 0, 4}, bytes_of("fakf"));
  fence();
  EXPECT_THAT(client->said, HasSubstr("the image has another digest"));
  EXPECT_EQ(client->ask(ModuleHave{digest}).reply.have, 0u);
  client->send(ModulePut{digest, 3, 4}, bytes_of("fake"));
  EXPECT_EQ(client->ask(ModuleHave{digest}).reply.have, 1u);
  client->send(ModuleLoad{{1}, digest});
  fence();
  EXPECT_THAT(client->said, HasSubstr("compression 3 is not known"));
}

}  // namespace
}  // namespace partita::remote::server
