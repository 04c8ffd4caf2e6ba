// The resources of a session apart from each other: on a FakeBackend, without a client. Sessions as
// a whole are in session_test.cc.
#include <gtest/gtest.h>

#include "server/fake_backend.h"
#include "server/graphs.h"
#include "server/inbound.h"
#include "wire/net/sim_net.h"

namespace partita::remote::server {
namespace {

// A channel whose other end nobody reads.
class Deaf final : public Channel {
 public:
  Result<void> write(std::span<const std::span<const std::byte>>, Nanos) override { return {}; }
  Result<std::size_t> read(std::span<std::byte>, Nanos) override {
    return failed({ErrorCode::timeout, "nothing comes", "deaf"});
  }
  int descriptor() const override { return -1; }
  void shut() noexcept override {}
};

class ResourcesTest : public ::testing::Test {
 protected:
  FakeBackend& fake() { return static_cast<FakeBackend&>(work.backend()); }
  static Status status(const Done& done) { return done ? kSuccess : done.error().status; }

  Deaf channel;
  SessionLimits limits = {.memory = 4096, .streams = 2, .graphs = 1, .graph_nodes = 3};
  MemoryImages images;
  Outbox out{channel, limits};
  Allocations allocations;
  DeviceWork work{std::make_unique<FakeBackend>(FakeBackend::Options{.manual = true}), out, limits};
  Modules modules{work, allocations, images, limits};
  Captures captures{work, modules, limits};
  Streams streams{work, captures, out, limits};
  Memory memory{work, allocations, captures, streams, out, limits};
  Graphs graphs{work, allocations, modules, captures, streams, memory, out, limits};
};

TEST_F(ResourcesTest, HandlesAreGivenOnceAndCounted) {
  EXPECT_EQ(status(streams.on(StreamCreate{.stream = {7}})), kSuccess);
  EXPECT_EQ(streams.on(StreamCreate{.stream = {7}}).error(),
            (Refused{kInvalidHandle, "stream 7 is there already"}));
  EXPECT_EQ(status(streams.on(StreamCreate{.stream = {8}})), kSuccess);
  EXPECT_EQ(streams.on(StreamCreate{.stream = {9}}).error(),
            (Refused{kOutOfMemory, "2 streams are the limit"}));
  EXPECT_EQ(status(streams.on(StreamDestroy{.stream = {7}})), kSuccess);
  EXPECT_EQ(streams.on(StreamDestroy{.stream = {7}}).error(),
            (Refused{kInvalidHandle, "there is no stream 7"}));
  EXPECT_EQ(fake().objects(), 1u);
}

TEST_F(ResourcesTest, FreedMemoryIsGoneOnceWhatWasEnqueuedIsDone) {
  EXPECT_EQ(status(memory.on(Alloc{{kFakeArena}, 4096})), kSuccess);
  EXPECT_EQ(status(memory.on(Alloc{{kFakeArena + 4096}, 256})), kOutOfMemory);
  EXPECT_EQ(status(memory.on(Set{.to = {kFakeArena}, .element = 1, .count = 16})), kSuccess);
  EXPECT_EQ(status(memory.on(Free{{kFakeArena}})), kSuccess);
  EXPECT_EQ(out.counts.memory, 4096u);
  EXPECT_EQ(status(memory.on(Set{.to = {kFakeArena}, .element = 1, .count = 16})), kInvalidValue);
  EXPECT_EQ(status(memory.on(Alloc{{kFakeArena}, 256})), kSuccess);
  EXPECT_TRUE(memory.stalled());
  fake().run();
  work.poll();
  EXPECT_EQ(out.counts.memory, 0u);
  EXPECT_FALSE(memory.stalled());
  EXPECT_EQ(fake().memory_used(), 0u);
}

TEST_F(ResourcesTest, CapturedWorkIsRecordedAndCounted) {
  EXPECT_EQ(status(memory.on(Alloc{{kFakeArena}, 256})), kSuccess);
  EXPECT_EQ(status(streams.on(StreamCreate{.stream = {1}})), kSuccess);
  EXPECT_EQ(status(graphs.on(CaptureBegin{.stream = {1}})), kSuccess);
  const Set set{.stream = {1}, .to = {kFakeArena}, .element = 1, .count = 16};
  EXPECT_EQ(status(memory.on(set)), kSuccess);
  EXPECT_EQ(status(memory.on(set)), kSuccess);
  const Reply<CaptureEnd> ended = graphs.on(CaptureEnd{.stream = {1}, .graph = {5}});
  ASSERT_TRUE(ended && *ended);
  EXPECT_EQ((*ended)->nodes, 2u);
  EXPECT_EQ(fake().run(), 0);  // nothing was done
  // Two nodes more than the limit of three; they are given back with the graph.
  EXPECT_EQ(graphs.on(GraphInstantiate{.graph = {5}, .exec = {6}})->error().status, kOutOfMemory);
  EXPECT_EQ(status(graphs.on(GraphDestroy{{5}})), kSuccess);
  EXPECT_TRUE(captures.count(3));
}

TEST_F(ResourcesTest, WhatWaitsSpoilsACapture) {
  EXPECT_EQ(status(streams.on(StreamCreate{.stream = {1}})), kSuccess);
  EXPECT_EQ(status(graphs.on(CaptureBegin{.stream = {1}})), kSuccess);
  EXPECT_EQ(streams.on(StreamQuery{{1}})->error().status, kCaptureUnsupported);
  EXPECT_EQ(graphs.on(CaptureEnd{.stream = {1}, .graph = {5}})->error(),
            (Refused{kCaptureInvalidated, "the capture is spoilt"}));
}

TEST_F(ResourcesTest, KernelsNeedTheirModule) {
  EXPECT_EQ(modules.on(ModuleLoad{{1}, digest_of({})}).error().status, kInvalidImage);
  EXPECT_EQ(modules.on(KernelOpen{{1}, {1}, "add", {}}).error(),
            (Refused{kInvalidHandle, "there is no module 1"}));
  EXPECT_EQ(modules.checked(Launch{.kernel = {1}}).error(),
            (Refused{kInvalidHandle, "there is no kernel 1"}));
}

TEST_F(ResourcesTest, TheFirstRefusalStays) {
  out.refused("set", {kInvalidValue, "one"});
  out.refused("set", {kOutOfMemory, "two"});
  EXPECT_EQ(out.sticky, kInvalidValue);
  EXPECT_EQ(out.counts.refused, 2u);
}

}  // namespace
}  // namespace partita::remote::server
