// Captures and graphs of a session: what they record, what they need, and what spoils them.
#include "server/graphs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "server/testing/session_fixture.h"

namespace partita::remote::server {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTest, CapturedForkAndJoin) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(Set{.to = {kFakeArena}, .element = 4, .count = 64});
  client->send(StreamCreate{{1}}), client->send(StreamCreate{{2}});
  client->send(EventCreate{{1}}), client->send(EventCreate{{2}});
  const auto one = arguments(kFakeArena, 4, 1);
  client->send(CaptureBegin{{1}, 0});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = one});
  client->send(EventRecord{{1}, {1}}), client->send(StreamWaitEvent{{2}, {1}});
  client->send(Launch{.stream = {2}, .kernel = {1}, .parameters = one});
  client->send(CopyOutLater{{2}, {kFakeArena}, 4, {8}});
  client->send(HostCall{{2}, {5}});
  client->send(EventRecord{{2}, {2}}), client->send(StreamWaitEvent{{1}, {2}});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = one});
  const auto end = client->ask(CaptureEnd{{1}, {7}});
  EXPECT_EQ(end.outcome, Outcome{}) << client->said;
  EXPECT_EQ(end.reply.nodes, 5u);
  EXPECT_EQ(words(client->ask(CopyOut{{1}, {kFakeArena}, 4}).bulk)[0], 0u);  // nothing ran
  EXPECT_EQ(client->ask(GraphInstantiate{{7}, {9}}).outcome, Outcome{});
  client->send(GraphDestroy{{7}});
  for (std::uint32_t round = 1; round <= 3; ++round) {
    client->send(GraphLaunch{{9}, {1}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
    ASSERT_EQ(client->notices.size(), 2u) << client->said;
    EXPECT_EQ(client->notices[0].header.code, CopiedOut::kSpec.code);
    EXPECT_EQ(words(client->notices[0].bulk)[0], round * 3 - 1);
    EXPECT_EQ(decode<Call>(client->notices[1].body)->token.value, 5u);
    client->notices.clear();
    client->send(CallDone{{5}});
    EXPECT_EQ(words(client->ask(CopyOut{{1}, {kFakeArena}, 4}).bulk)[0], round * 3);
  }
  client->send(GraphExecDestroy{{9}});
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_TRUE(seat().session->step().idle) << "of a graph that is gone nothing is waited for";
}

TEST_F(SessionTest, CapturesThatCannotBe) {
  start();
  load();
  client->send(StreamCreate{{1}}), client->send(StreamCreate{{2}});
  client->send(EventCreate{{1}});
  // A fork that nobody joins.
  client->send(CaptureBegin{{1}, 0});
  client->send(EventRecord{{1}, {1}}), client->send(StreamWaitEvent{{2}, {1}});
  client->send(HostCall{{2}, {1}});
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, kCaptureUnjoined);
  EXPECT_EQ(client->ask(StreamSync{{2}}).outcome.status, 0);  // no longer captured
  // A wait spoils it; the end must be on the stream where it began.
  client->send(CaptureBegin{{1}, 0});
  EXPECT_EQ(client->ask(StreamSync{{1}}).outcome.status, kCaptureUnsupported);
  EXPECT_EQ(client->ask(CaptureEnd{{2}, {7}}).outcome.status, kCaptureInvalidated);
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, kCaptureInvalidated);
  EXPECT_EQ(client->ask(GraphInstantiate{{7}, {9}}).outcome.status, kInvalidHandle);
  EXPECT_EQ(fence(), 0) << client->said;
}

// What joined a capture shares its fate: whatever spoils it, the end says so, and then all is well.
TEST_F(SessionTest, CapturesThatAreSpoilt) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  for (const std::uint64_t one : {1, 2, 3})
    client->send(StreamCreate{{one}}), client->send(EventCreate{{one}});
  const auto join = [this](std::uint64_t from, std::uint64_t to) {
    client->send(EventRecord{{from}, {from}}), client->send(StreamWaitEvent{{to}, {from}});
  };
  const auto ends = [this](std::uint64_t stream) {
    return client->ask(CaptureEnd{{stream}, {7}}).outcome.status;
  };
  // Ended where it did not begin.
  client->send(CaptureBegin{{1}, 0}), join(1, 2);
  EXPECT_EQ(ends(2), kCaptureUnmatched);
  EXPECT_EQ(ends(1), kCaptureInvalidated);
  // Two of them.
  client->send(CaptureBegin{{1}, 0}), client->send(CaptureBegin{{2}, 0}), join(1, 2);
  EXPECT_EQ(ends(1), kCaptureInvalidated);
  EXPECT_EQ(ends(2), kCaptureInvalidated);
  // A graph inside a graph.
  client->send(GraphCreate{{1}});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome.status, 0);
  client->send(CaptureBegin{{1}, 0}), client->send(GraphLaunch{{1}, {1}});
  EXPECT_EQ(ends(1), kCaptureInvalidated);
  // One that joined may go: what it did stays.
  client->send(CaptureBegin{{1}, 0}), join(1, 2), client->send(StreamDestroy{{2}});
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {8}}).outcome.status, 0);
  client->send(StreamCreate{{2}});
  // The stream where it began goes.
  client->send(CaptureBegin{{1}, 0}), join(1, 2), client->send(StreamDestroy{{1}});
  EXPECT_EQ(ends(2), kCaptureInvalidated);
  EXPECT_EQ(client->ask(StreamSync{{2}}).outcome.status, 0) << "no longer captured";
  EXPECT_EQ(client->ask(GraphLaunch{{7}, {}}).came, false);
}

// What a captured graph copies must be there when it runs, at both ends.
TEST_F(SessionTest, CapturedCopiesNeedTheirMemory) {
  const std::uint64_t to = kFakeArena, from = kFakeArena + 256;
  for (const std::uint64_t freed : {to, from}) {
    for (const auto& [in, out] : {std::pair(true, false), {false, true}, {false, false}}) {
      if ((in && freed == from) || (out && freed == to)) continue;
      start();
      client->send(Alloc{{to}, 256}), client->send(Alloc{{from}, 256});
      client->send(StreamCreate{{1}});
      client->send(CaptureBegin{{1}, 0});
      if (in)
        client->send(CopyIn{{1}, {to}}, bytes_of("abcd"));
      else if (out)
        client->send(CopyOutLater{{1}, {from}, 64, {8}});
      else
        client->send(CopyDevice{{1}, {to}, {from}, 64, 64, 64, 1});
      EXPECT_EQ(client->ask(CaptureEnd{{1}, {7}}).outcome.status, 0);
      EXPECT_EQ(client->ask(GraphInstantiate{{7}, {9}}).outcome.status, 0);
      client->send(GraphLaunch{{9}, {}});
      EXPECT_EQ(fence(), 0) << client->said;
      client->send(Free{{freed}}), client->send(GraphLaunch{{9}, {}});
      EXPECT_EQ(fence(), kInvalidValue);
      EXPECT_THAT(client->said, HasSubstr("which were freed"));
    }
  }
}

// What copies in graphs hold is bounded to the byte, and given back with their graphs.
TEST_F(SessionTest, CopiesInGraphsAreBoundedTogether) {
  start({}, {.graphs = 2, .staging_at_most = 8});
  client->send(Alloc{{kFakeArena}, 256});
  client->send(StreamCreate{{1}});
  const auto captured = [this](std::uint64_t graph, std::initializer_list<const char*> copies) {
    client->send(CaptureBegin{{1}, 0});
    for (const char* bytes : copies) client->send(CopyIn{{1}, {kFakeArena}}, bytes_of(bytes));
    return client->ask(CaptureEnd{{1}, {graph}}).outcome.status;
  };
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(captured(1, {"1234", "5678"}), 0) << client->said;
    EXPECT_EQ(captured(2, {"9"}), kCaptureInvalidated);
    EXPECT_THAT(client->said, HasSubstr("copies into the device in graphs are too large"));
    client->said.clear();
    EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome.status, 0);
    EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome.status, kInvalidHandle);
    EXPECT_EQ(captured(2, {"9"}), kCaptureInvalidated) << "they lie there once";
    client->send(GraphExecDestroy{{1}});
    fence();
    EXPECT_EQ(captured(2, {"9"}), kCaptureInvalidated);
    client->send(GraphDestroy{{1}});
  }
  load();  // an executable that cannot be made gives back what it counted, and no more
  client->send(GraphCreate{{2}});
  const auto launch = frame_of(Launch{.kernel = {1}, .parameters = arguments(kFakeArena, 0, 0)});
  client->send(GraphAdd{{2}, {11}, {}, launch});
  client->send(ModuleUnload{{1}});
  EXPECT_EQ(client->ask(GraphInstantiate{{2}, {1}}).outcome.status, kInvalidHandle);
  client->send(GraphDestroy{{2}});
  EXPECT_EQ(captured(1, {"123456789"}), kCaptureInvalidated);
  EXPECT_EQ(captured(1, {"1234567"}), 0) << client->said;
  EXPECT_EQ(captured(2, {"8"}), 0) << client->said;
}

TEST_F(SessionTest, GraphsNodeByNode) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  client->send(GraphCreate{{1}});
  const auto set = frame_of(Set{.to = {kFakeArena}, .value = 4, .element = 4, .count = 4});
  const auto block = arguments(kFakeArena, 4, 2);
  const auto add = frame_of(Launch{.kernel = {1}, .parameters = block});
  const std::uint64_t first = 11, unknown = 99;
  client->send(GraphAdd{{1}, {11}, {}, set});
  client->send(GraphAdd{{1}, {12}, std::as_bytes(std::span(&first, 1)), add});
  client->send(GraphAdd{{1}, {13}, std::as_bytes(std::span(&first, 1)), {}});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome, Outcome{}) << client->said;
  client->send(GraphLaunch{{1}, {}}), client->send(GraphLaunch{{1}, {}});
  EXPECT_EQ(words(client->ask(CopyOut{{}, {kFakeArena}, 16}).bulk),
            (std::vector<std::uint32_t>{6, 6, 6, 6}));
  const auto call = frame_of(HostCall{{}, {5}});
  client->send(GraphAdd{{1}, {16}, {}, call});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {2}}).outcome, Outcome{}) << client->said;
  for (std::size_t round = 1; round <= 2; ++round) {
    client->send(GraphLaunch{{2}, {}});
    for (int i = 0; i < 2; ++i) EXPECT_EQ(client->ask(Ping{}).outcome, Outcome{});
    ASSERT_EQ(client->notices.size(), round) << "called with each launch";
    client->send(CallDone{{5}});
  }
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(GraphAdd{{1}, {14}, std::as_bytes(std::span(&unknown, 1)), add});
  EXPECT_EQ(fence(), kInvalidHandle);
  EXPECT_THAT(client->said, HasSubstr("there is no node 99 to come after"));
  client->send(GraphAdd{{1}, {15}, {}, Bytes(add).first(add.size() - 1)});
  fence();
  EXPECT_THAT(client->said, HasSubstr("half a frame"));
  // Its kernel goes: so do its launches.
  client->send(ModuleUnload{{1}});
  client->send(GraphLaunch{{1}, {}});
  fence();
  EXPECT_THAT(client->said, HasSubstr("a kernel of the graph has been unloaded"));
}

// A node of a graph, or of what was made of it, does something else from now on, and touches
// something else.
TEST_F(SessionTest, NodesAreSetAnew) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256}), client->send(Alloc{{kFakeArena + 256}, 256});
  const auto set = [](std::uint64_t at, std::uint32_t value) {
    return frame_of(Set{.to = {kFakeArena + at}, .value = value, .element = 4, .count = 1});
  };
  const auto word = [this](std::uint64_t exec, std::uint64_t at) {
    client->send(GraphLaunch{{exec}, {}});
    return words(client->ask(CopyOut{{}, {kFakeArena + at}, 4}).bulk).at(0);
  };
  client->send(GraphCreate{{1}});
  client->send(GraphAdd{{1}, {11}, {}, set(0, 4)}), client->send(GraphAdd{{1}, {12}, {}, {}});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome, Outcome{}) << client->said;
  EXPECT_EQ(word(1, 0), 4u);
  client->send(GraphSet{{}, {1}, 0, set(0, 5)});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {2}}).outcome, Outcome{}) << client->said;
  EXPECT_EQ(word(1, 0), 5u);
  EXPECT_EQ(word(2, 0), 4u) << "the graph is as it was";
  client->send(GraphSet{{1}, {}, 0, set(256, 6)});
  EXPECT_EQ(word(1, 0), 5u);
  EXPECT_EQ(client->ask(GraphUpdate{{1}, {1}}).outcome, Outcome{}) << client->said;
  EXPECT_EQ(word(1, 256), 6u);
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_EQ(seat().device->graphs().size(), 2u) << "what it was is gone";
  client->send(Free{{kFakeArena}});
  client->send(GraphLaunch{{1}, {}});
  EXPECT_EQ(fence(), 0) << client->said;
  const auto refused = [this](const std::string& why) {
    client->said.clear();
    fence();
    EXPECT_THAT(client->said, HasSubstr(why));
  };
  client->send(GraphLaunch{{2}, {}});
  refused("graph_launch: a node uses 4 bytes at 0x700000000000, which were freed");
  client->send(Alloc{{kFakeArena}, 256}), client->send(Free{{kFakeArena + 256}});
  client->send(GraphLaunch{{1}, {}});
  refused("graph_launch: a node uses 4 bytes at 0x700000000100, which were freed");
  client->send(Alloc{{kFakeArena + 256}, 256});
  const auto launch = frame_of(Launch{.kernel = {1}, .parameters = arguments(kFakeArena, 0, 0)});
  const auto call = frame_of(HostCall{{}, {5}});
  client->send(GraphSet{{1}, {}, 0, launch});
  refused("graph_set: a node of another kind");
  client->send(GraphSet{{1}, {}, 0, Bytes(call).first(5)});
  refused("graph_set: a node with half a frame");
  client->send(GraphSet{{1}, {}, 0, Bytes(call).first(call.size() - 1)});
  refused("graph_set: a node with half a frame");
  client->send(GraphSet{{1}, {}, 0, frame_of(Fence{})});
  refused(fmt::format("graph_set: a node with operation {}", Fence::kSpec.code));
  client->send(GraphSet{{1}, {}, 1, set(256, 1)});
  refused("graph_set: there is no node 1 that does anything");
  client->send(GraphSet{{1}, {}, 2, set(256, 1)});
  refused("graph_set: there is no node 2 that does anything");
  client->send(GraphClone{{1}, {3}}), client->send(GraphDestroy{{1}});
  EXPECT_EQ(client->ask(GraphInstantiate{{3}, {3}}).outcome.status, 0);
  EXPECT_EQ(word(3, 256), 6u) << "a clone lives on";
}

// An executable whose node was set anew needs what the node needs now, and nothing else.
TEST_F(SessionTest, NodesThatAreSetAnewNeedOtherThings) {
  start();
  load();
  const Digest digest = digest_of(bytes_of("fake"));
  client->send(ModuleLoad{{2}, digest}), client->send(KernelOpen{{2}, {2}, "nothing", {}});
  client->send(Alloc{{kFakeArena}, 256}), client->send(Alloc{{kFakeArena + 256}, 256});
  const auto set = [](std::uint64_t at) {
    return frame_of(Set{.to = {kFakeArena + at}, .value = 3, .element = 4, .count = 1});
  };
  const auto one = frame_of(Launch{.kernel = {1}, .parameters = arguments(kFakeArena, 0, 0)});
  client->send(GraphCreate{{1}});
  client->send(GraphAdd{{1}, {11}, {}, set(0)}), client->send(GraphAdd{{1}, {12}, {}, one});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome, Outcome{}) << client->said;
  client->send(GraphSet{{}, {1}, 0, set(256)});
  client->send(GraphSet{{}, {1}, 1, frame_of(Launch{.kernel = {2}})});
  client->send(Free{{kFakeArena}}), client->send(ModuleUnload{{1}});
  client->send(GraphLaunch{{1}, {}});
  EXPECT_EQ(words(client->ask(CopyOut{{}, {kFakeArena + 256}, 4}).bulk)[0], 3u);
  EXPECT_EQ(fence(), 0) << client->said;
}

std::vector<std::byte> numbers(std::initializer_list<std::uint64_t> some) {
  const auto bytes = std::as_bytes(std::span(some.begin(), some.size()));
  return {bytes.begin(), bytes.end()};
}

// A node that is disabled does nothing and needs nothing, whatever becomes of it meanwhile.
TEST_F(SessionTest, NodesAreDisabled) {
  start();
  client->send(Alloc{{kFakeArena}, 256}), client->send(Alloc{{kFakeArena + 256}, 256});
  const auto set = [](std::uint64_t at, std::uint32_t value) {
    return frame_of(Set{.to = {kFakeArena + at}, .value = value, .element = 4, .count = 1});
  };
  const auto launched = [this] {
    client->send(Set{.to = {kFakeArena}, .element = 4, .count = 2});
    client->send(GraphLaunch{{1}, {}});
    return words(client->ask(CopyOut{{}, {kFakeArena}, 8}).bulk);
  };
  using Words = std::vector<std::uint32_t>;
  client->send(GraphCreate{{1}});
  client->send(GraphAdd{{1}, {11}, {}, set(0, 4)});
  client->send(GraphAdd{{1}, {12}, numbers({11}), set(4, 5)});
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome, Outcome{}) << client->said;
  client->send(GraphSet{{}, {1}, 0, {}, 0});
  EXPECT_EQ(launched(), (Words{0, 5}));
  client->send(GraphSet{{}, {1}, 0, set(256, 6), 0});
  client->send(Free{{kFakeArena + 256}});
  EXPECT_EQ(launched(), (Words{0, 5}));
  EXPECT_EQ(client->ask(GraphUpdate{{1}, {1}}).outcome, Outcome{}) << client->said;
  EXPECT_EQ(launched(), (Words{0, 5})) << "still disabled";
  client->send(GraphSet{{}, {1}, 0, {}, 1});
  EXPECT_EQ(launched(), (Words{4, 5}));
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(GraphSet{{1}, {}, 0, {}, 0});
  fence();
  EXPECT_THAT(client->said, HasSubstr("graph_set: a node that cannot be disabled"));
}

// What a server tells of a graph is what would make it, whether it was built or captured.
TEST_F(SessionTest, NodesAreTold) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 256});
  const auto block = arguments(kFakeArena, 4, 2);
  const std::vector<std::byte> operations[] = {
      frame_of(Launch{.kernel = {1}, .grid = {2, 3, 4}, .block = {5, 6, 7}, .parameters = block}),
      frame_of(CopyDevice{{}, {kFakeArena}, {kFakeArena + 64}, 8, 16, 4, 2}),
      frame_of(Set{{}, {kFakeArena}, 7, 2, 3, 2, 8}),
      frame_of(HostCall{{}, {5}}),
      {}};
  client->send(GraphCreate{{1}});
  std::vector<std::byte> all, rest;
  for (std::uint64_t node = 11; const auto& operation : operations) {
    const auto after = node == 11 ? numbers({}) : numbers({11, node - 1});
    client->send(GraphAdd{{1}, {node}, after, operation});
    const auto frame = frame_of(GraphAdd{{}, {node}, after, operation});
    all.insert(all.end(), frame.begin(), frame.end());
    if (node++ > 12) rest.insert(rest.end(), frame.begin(), frame.end());
  }
  const auto told = [this](GraphHandle graph, GraphExecHandle exec, std::uint32_t from) {
    const auto answer = client->ask(GraphNodes{graph, exec, from});
    EXPECT_EQ(answer.outcome, Outcome{}) << client->said;
    return std::vector<std::byte>(answer.reply.nodes.begin(), answer.reply.nodes.end());
  };
  EXPECT_EQ(told({1}, {}, 0), all);
  EXPECT_EQ(told({1}, {}, 2), rest);
  for (const std::uint32_t behind : {5U, 6U, ~0U}) EXPECT_TRUE(told({1}, {}, behind).empty());
  EXPECT_EQ(client->ask(GraphInstantiate{{1}, {1}}).outcome, Outcome{}) << client->said;
  client->send(GraphSet{{}, {1}, 2, {}, 0});
  client->send(GraphDestroy{{1}});
  EXPECT_EQ(told({}, {1}, 0), all);
  client->send(StreamCreate{{1}});
  client->send(CaptureBegin{.stream = {1}, .graph = {2}, .first = {21}});
  client->send(Launch{.stream = {1}, .kernel = {1}, .parameters = block});
  client->send(HostCall{{1}, {6}});
  EXPECT_EQ(client->ask(CaptureEnd{{1}, {2}}).outcome, Outcome{}) << client->said;
  auto want =
      frame_of(GraphAdd{{}, {21}, {}, frame_of(Launch{.kernel = {1}, .parameters = block})});
  const auto call = frame_of(GraphAdd{{}, {22}, numbers({21}), frame_of(HostCall{{}, {6}})});
  want.insert(want.end(), call.begin(), call.end());
  EXPECT_EQ(told({2}, {}, 0), want);
  EXPECT_EQ(client->ask(GraphNodes{{9}, {}, 0}).outcome.status, kInvalidHandle);
  EXPECT_EQ(client->ask(GraphNodes{{}, {9}, 0}).outcome.status, kInvalidHandle);
}

// Nodes go, and others come after them no longer; what was made of the graph keeps them.
TEST_F(SessionTest, NodesGo) {
  start({}, {.graph_nodes = 7});
  client->send(GraphCreate{{1}}), client->send(GraphCreate{{2}});
  for (std::uint64_t node = 11; node < 14; ++node)
    client->send(GraphAdd{{1}, {node}, node == 11 ? numbers({}) : numbers({11, node - 1}), {}});
  const auto made = [this](std::uint64_t exec) {
    EXPECT_EQ(client->ask(GraphInstantiate{{1}, {exec}}).outcome, Outcome{}) << client->said;
    std::vector<std::vector<Id>> order;
    for (const GraphSpec::Node& node : seat().device->graphs().rbegin()->second.nodes)
      order.push_back(node.after);
    return order;
  };
  using Order = std::vector<std::vector<Id>>;
  EXPECT_EQ(made(1), (Order{{}, {0, 0}, {0, 1}}));
  client->send(GraphExecDestroy{{1}});
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(GraphOrder{{1}, 2, numbers({12})});
  EXPECT_EQ(made(2), (Order{{}, {0, 0}, {1}}));
  client->send(GraphOrder{{1}, 0, {}, 1});
  EXPECT_EQ(made(3), (Order{{}, {0}})) << "with 2 and 3 nodes in executable graphs";
  client->send(GraphExecDestroy{{2}}), client->send(GraphExecDestroy{{3}});
  EXPECT_EQ(fence(), 0) << client->said;
  client->send(GraphBranch{{1}, {14}, {}, kOnce, {}, numbers({2})});
  client->send(GraphAdd{{1}, {15}, numbers({14, 12}), {}});
  client->send(GraphOrder{{1}, 2, {}, 1});
  EXPECT_EQ(made(4), (Order{{}, {0}, {0}}));
  EXPECT_EQ(fence(), 0) << client->said;
  const auto refused = [this](const GraphOrder& op, const std::string& why) {
    client->said.clear();
    client->send(op), fence();
    EXPECT_THAT(client->said, HasSubstr(why));
  };
  refused({{2}, 0}, "there is no graph 2");
  refused({{1}, 3}, "there is no node 3");
  refused({{1}, 0, numbers({12})}, "a node that comes after a later one");
  refused({{1}, 0, numbers({13})}, "a node that comes after a later one");
  refused({{1}, 1, numbers({11})}, "there is no node 11 to come after");
}

// Events are of each launch, also where nobody else has them any more; a record makes them no
// capture's.
TEST_F(SessionTest, NodesHaveEvents) {
  start({}, {.events = 3});
  client->send(StreamCreate{{1}}), client->send(StreamCreate{{2}});
  for (const std::uint64_t event : {1, 2, 3}) client->send(EventCreate{{event}});
  client->send(GraphCreate{{1}});
  const auto record = frame_of(EventRecord{{1}, {}}), wait = frame_of(StreamWaitEvent{{}, {2}});
  client->send(GraphAdd{{1}, {11}, {}, record});
  client->send(GraphAdd{{1}, {12}, numbers({11}), wait});
  // The same, captured; another event is recorded in the capture as usual.
  client->send(CaptureBegin{.stream = {1}, .first = {21}});
  client->send(EventRecord{{1}, {1}, kExternal});
  client->send(StreamWaitEvent{{1}, {2}, kExternal});
  client->send(EventRecord{{3}, {1}}), client->send(StreamWaitEvent{{2}, {3}});
  client->send(EventRecord{{1}, {2}, kExternal});
  client->send(EventRecord{{3}, {2}}), client->send(StreamWaitEvent{{1}, {3}});
  const auto end = client->ask(CaptureEnd{{1}, {2}});
  EXPECT_EQ(end.outcome, Outcome{}) << client->said;
  EXPECT_EQ(end.reply.nodes, 3u);
  const auto told = client->ask(GraphNodes{{2}, {}, 0});
  auto want = frame_of(GraphAdd{{}, {21}, {}, record});
  for (const auto& more : {frame_of(GraphAdd{{}, {22}, numbers({21}), wait}),
                           frame_of(GraphAdd{{}, {23}, numbers({22}), record})})
    want.insert(want.end(), more.begin(), more.end());
  EXPECT_TRUE(std::ranges::equal(told.reply.nodes, want));
  EXPECT_EQ(client->ask(EventQuery{{1}}).outcome.status, 0) << "of no capture";
  for (const std::uint64_t graph : {1, 2})
    EXPECT_EQ(client->ask(GraphInstantiate{{graph}, {graph}}).outcome, Outcome{}) << client->said;
  client->send(EventRecord{{3}, {}});  // no longer the capture's
  // A record of the launch in place of one in a capture.
  client->send(CaptureBegin{.stream = {2}}), client->send(EventRecord{{1}, {2}});
  EXPECT_EQ(client->ask(EventQuery{{1}}).outcome.status, kCaptureUnsupported);
  client->send(GraphLaunch{{2}, {1}});
  EXPECT_EQ(client->ask(EventSync{{1}}).outcome.status, 0);
  EXPECT_EQ(client->ask(CaptureEnd{{2}, {3}}).outcome.status, 0);
  // Gone, but not from the graphs; there is room for others.
  client->send(EventDestroy{{1}}), client->send(EventDestroy{{2}});
  for (const std::uint64_t graph : {1, 2}) client->send(GraphLaunch{{graph}, {1}});
  client->send(EventCreate{{4}});
  client->send(GraphSet{{}, {1}, 0, frame_of(EventRecord{{4}, {}})});
  client->send(GraphLaunch{{1}, {}});
  EXPECT_EQ(client->ask(EventSync{{4}}).outcome.status, 0);
  EXPECT_EQ(fence(), 0) << client->said;
  const auto events = [this] { return seat().device->objects(); };
  const std::size_t before = events();
  for (const std::uint64_t graph : {1, 2}) {
    client->send(GraphExecDestroy{{graph}}), client->send(GraphDestroy{{graph}});
  }
  EXPECT_EQ(fence(), 0) << client->said;
  EXPECT_EQ(events(), before - 4) << "two executable graphs, two events";
}

TEST_F(SessionTest, NodesWithoutTheirEvents) {
  const auto refused = [this](const auto& op, Status status, const std::string& why) {
    start();
    client->send(Alloc{{kFakeArena}, 256});
    client->send(StreamCreate{{1}}), client->send(EventCreate{{1}});
    client->send(GraphCreate{{1}}), client->send(GraphCreate{{2}});
    op();
    EXPECT_EQ(fence(), status);
    EXPECT_THAT(client->said, HasSubstr(why));
  };
  const auto record = frame_of(EventRecord{{1}, {}});
  refused(
      [&] {
        client->send(GraphAdd{{1}, {11}, {}, frame_of(EventRecord{{9}, {}})});
      },
      kInvalidHandle, "there is no event 9");
  refused(
      [&] {
        client->send(EventRecord{{1}, {1}, kExternal});
      },
      kInvalidValue, "outside of a capture");
  refused(
      [&] {
        client->send(StreamWaitEvent{{1}, {1}, kExternal});
      },
      kInvalidValue, "outside of a capture");
  const auto body = [&](BranchKind kind) {
    client->send(GraphAdd{{2}, {11}, {}, record});
    client->send(GraphBranch{{1}, {12}, {}, kind, {kind == kOnce ? 0 : kFakeArena}, numbers({2})});
    return client->ask(GraphInstantiate{{1}, {1}}).outcome.status;
  };
  refused([&] { EXPECT_EQ(body(kIf), kNotSupported); }, 0, "that a condition decides");
  refused([&] { EXPECT_EQ(body(kOnce), 0); }, 0, "");
}

// What an executable graph's nodes can become, by the rules of cudaGraphExecUpdate.
TEST_F(SessionTest, UpdatesKeepWhatNodesAre) {
  start();
  load();
  client->send(Alloc{{kFakeArena}, 4096});
  const auto block = arguments(kFakeArena, 1, 1);
  const auto copy = [](std::uint64_t to, std::uint64_t from) {
    return frame_of(
        CopyDevice{.to = {kFakeArena + to}, .from = {kFakeArena + from}, .width = 4, .rows = 1});
  };
  const auto set = [](std::uint64_t count, std::uint64_t rows, std::uint32_t value) {
    return frame_of(Set{.to = {kFakeArena},
                        .value = value,
                        .element = 4,
                        .count = count,
                        .rows = rows,
                        .pitch = 64});
  };
  const auto launch = [&](std::uint32_t flags, std::uint32_t x) {
    return frame_of(Launch{.kernel = {1}, .grid = {x, 1, 1}, .flags = flags, .parameters = block});
  };
  std::uint64_t next = 1;
  const auto host = numbers({kFakeArena + 1024, 512, kFakeArena + 2048, 1});
  const auto update = [&](const auto& was, const auto& is, bool inside) {
    std::uint64_t graphs[2];
    for (std::uint64_t& graph : graphs) {
      graph = next++;
      client->send(GraphCreate{{graph}});
      client->send(GraphAdd{{graph}, {next++}, {}, &graph == graphs ? was : is});
      if (!inside) continue;
      const std::uint64_t body = std::exchange(graph, next++);
      client->send(GraphCreate{{graph}});
      client->send(GraphBranch{{graph}, {next++}, {}, kOnce, {}, numbers({body})});
    }
    const std::uint64_t exec = next++;
    EXPECT_EQ(client->ask(GraphInstantiate{{graphs[0]}, {exec}}).outcome, Outcome{});
    return client->ask(GraphUpdate{{exec}, {graphs[1]}, host}).outcome.status;
  };
  for (const bool inside : {false, true}) {
    EXPECT_EQ(update(copy(0, 1024), copy(8, 1280), inside), 0) << "both from the program";
    EXPECT_EQ(update(copy(0, 1024), copy(8, 512), inside), kUpdateFailure);
    EXPECT_EQ(update(copy(0, 512), copy(8, 1280), inside), kUpdateFailure);
    EXPECT_EQ(update(copy(2048, 0), copy(2048, 512), inside), 0);
    EXPECT_EQ(update(copy(2048, 0), copy(8, 512), inside), kUpdateFailure);
    EXPECT_EQ(update(copy(2048, 0), copy(0, 1024), inside), kUpdateFailure);
    EXPECT_EQ(update(set(4, 1, 1), set(8, 1, 2), inside), 0) << "runs may be longer";
    EXPECT_EQ(update(set(4, 2, 1), set(4, 2, 2), inside), 0);
    EXPECT_EQ(update(set(4, 2, 1), set(4, 3, 1), inside), kUpdateFailure);
    EXPECT_EQ(update(set(4, 2, 1), set(5, 2, 1), inside), kUpdateFailure);
    EXPECT_EQ(update(set(4, 1, 1), set(4, 2, 1), inside), kUpdateFailure);
    EXPECT_EQ(update(launch(0, 1), launch(0, 3), inside), 0);
    EXPECT_EQ(update(launch(0, 1), launch(kCooperative, 1), inside), kUpdateFailure);
    EXPECT_EQ(update(launch(kCooperative, 1), launch(0, 1), inside), kUpdateFailure);
    EXPECT_EQ(update(launch(0, 1), set(4, 1, 1), inside), kUpdateFailure);
  }
  EXPECT_EQ(fence(), 0) << client->said;
}

}  // namespace
}  // namespace partita::remote::server
