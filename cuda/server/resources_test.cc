// The resources of a session apart from each other: on a FakeBackend, without a client. Sessions as
// a whole are in session_test.cc.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "server/graphs.h"
#include "server/inbound.h"
#include "server/sharing.h"
#include "server/testing/deaf.h"
#include "server/testing/fake_backend.h"
#include "wire/net/testing/sim_net.h"

namespace partita::remote::server {
namespace {

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

// ---- limits at their edge ----

template <class Answer>
std::string said(const Answer& done) {
  return done ? "taken" : done.error().reason;
}
template <class Op>
std::string replied(const Reply<Op>& reply) {
  return !reply ? "later" : *reply ? "taken" : (*reply).error().reason;
}

class LaunchesTest : public ResourcesTest {
 protected:
  LaunchesTest() {
    const auto image = std::as_bytes(std::span(std::string_view("fake")));
    PackedImage packed{{image.begin(), image.end()}, 0, 4};
    images.put(digest_of(image), std::make_shared<const PackedImage>(packed));
    EXPECT_EQ(said(modules.on(ModuleLoad{{1}, digest_of(image)})), "taken");
    EXPECT_EQ(said(modules.on(KernelOpen{{1}, {1}, "nothing", {}})), "taken");
  }
  std::string launch(const Launch& op) const { return said(modules.checked(op)); }
};

TEST_F(LaunchesTest, GridsAndBlocksHaveTheirLimits) {
  const Launch one{.kernel = {1}};
  EXPECT_EQ(launch(one), "taken");
  const auto grid = [&](Extent3 blocks, Extent3 threads) {
    Launch op = one;
    op.grid = blocks;
    op.block = threads;
    return launch(op);
  };
  constexpr std::uint32_t kMostX = 0x7fff'ffff;
  EXPECT_EQ(grid({kMostX, 65'535, 65'535}, {1, 1, 1}), "taken");
  EXPECT_EQ(grid({kMostX + 1, 1, 1}, {1, 1, 1}),
            "a grid of 2147483648x1x1 blocks of 1x1x1 threads; 1024 threads are the most");
  EXPECT_EQ(grid({1, 65'536, 1}, {1, 1, 1}),
            "a grid of 1x65536x1 blocks of 1x1x1 threads; 1024 threads are the most");
  EXPECT_NE(grid({1, 1, 65'536}, {1, 1, 1}), "taken");
  EXPECT_EQ(grid({1, 1, 1}, {1024, 1, 1}), "taken");
  EXPECT_EQ(grid({1, 1, 1}, {1, 1024, 1}), "taken");
  EXPECT_EQ(grid({1, 1, 1}, {16, 1, 64}), "taken");
  EXPECT_NE(grid({1, 1, 1}, {1025, 1, 1}), "taken");
  EXPECT_NE(grid({1, 1, 1}, {1, 1025, 1}), "taken");
  EXPECT_NE(grid({1, 1, 1}, {1, 1, 65}), "taken");
  EXPECT_NE(grid({1, 1, 1}, {1024, 2, 1}), "taken") << "1024 are the most together";
  EXPECT_NE(grid({1, 1, 1}, {65'536, 65'536, 1}), "taken") << "nor does it overflow";
  for (int which = 0; which < 3; ++which) {
    Extent3 none{1, 1, 1};
    (which == 0 ? none.x : which == 1 ? none.y : none.z) = 0;
    EXPECT_NE(grid(none, {1, 1, 1}), "taken");
    EXPECT_NE(grid({1, 1, 1}, none), "taken");
  }
}

TEST_F(LaunchesTest, SharedMemoryFlagsAndParametersAreChecked) {
  EXPECT_EQ(launch({.kernel = {1}, .shared_bytes = 48 * 1024}), "taken");
  EXPECT_EQ(launch({.kernel = {1}, .shared_bytes = 48 * 1024 + 1}),
            "49153 bytes of dynamic shared memory; 49152 may be used");
  EXPECT_EQ(launch({.kernel = {1}, .flags = kCooperative}), "taken");
  EXPECT_TRUE(modules.checked({.kernel = {1}, .flags = kCooperative})->cooperative);
  EXPECT_EQ(launch({.kernel = {1}, .flags = kCooperative << 1}), "flags 0x2 of a launch");
  const std::byte block[1] = {};
  EXPECT_EQ(launch({.kernel = {1}, .parameters = block}),
            "1 bytes of parameters; the kernel has 0");
  const auto dynamic = [&](std::uint32_t attribute, std::int32_t value) {
    return said(modules.on(KernelSetAttribute{{1}, attribute, value}));
  };
  EXPECT_EQ(dynamic(15, -7), "taken") << "a hint";
  EXPECT_EQ(dynamic(16, 0), "there is no attribute 16");
  EXPECT_EQ(dynamic(8, -1), "-1 bytes of dynamic shared memory; 232448 are the most");
  EXPECT_EQ(dynamic(8, 227 * 1024 + 1),
            "232449 bytes of dynamic shared memory; 232448 are the most");
  EXPECT_EQ(dynamic(8, 227 * 1024), "taken");
  EXPECT_EQ(launch({.kernel = {1}, .shared_bytes = 227 * 1024}), "taken");
  EXPECT_EQ(modules.on(KernelAttributes{{1}}).value()->max_dynamic_shared, 227u * 1024);
  const KernelAttributes::Reply facts = **modules.on(KernelAttributes{{1}});
  EXPECT_EQ(facts.max_threads, 1024u);
  EXPECT_EQ(facts.shared_bytes, 0u);
  EXPECT_EQ(facts.const_bytes, 31u);
  EXPECT_EQ(facts.local_bytes, 32u);
  EXPECT_EQ(facts.registers, 33u);
  EXPECT_EQ(facts.ptx_version, 34u);
  EXPECT_EQ(facts.binary_version, 35u);
  EXPECT_EQ(dynamic(8, 0), "taken");
  EXPECT_NE(launch({.kernel = {1}, .shared_bytes = 1}), "taken");
  EXPECT_EQ(said(modules.on(KernelSetAttribute{{2}, 8, 0})), "there is no kernel 2");
}

// What a kernel has of shared memory itself is taken from what a launch may ask for.
TEST_F(LaunchesTest, SharedMemoryOfTheKernelItselfCounts) {
  std::vector<KernelParameter> eight;
  for (std::uint32_t i = 0; i < 8; ++i) eight.push_back({i * 8, 8});
  EXPECT_EQ(said(modules.on(KernelOpen{{2}, {1}, "many", std::as_bytes(std::span(eight))})),
            "taken");
  const std::byte block[64] = {};
  EXPECT_EQ(launch({.kernel = {2}, .shared_bytes = 47 * 1024, .parameters = block}), "taken");
  EXPECT_EQ(launch({.kernel = {2}, .shared_bytes = 47 * 1024 + 1, .parameters = block}),
            "48129 bytes of dynamic shared memory; 48128 may be used");
  const auto dynamic = [&](std::int32_t value) {
    return said(modules.on(KernelSetAttribute{{2}, 8, value}));
  };
  EXPECT_EQ(dynamic(226 * 1024), "taken");
  EXPECT_EQ(dynamic(226 * 1024 + 1), "231425 bytes of dynamic shared memory; 231424 are the most");
  const KernelAttributes::Reply facts = **modules.on(KernelAttributes{{2}});
  EXPECT_EQ(facts.shared_bytes, 1024u);
  EXPECT_EQ(facts.max_dynamic_shared, 226u * 1024);
}

// A device with much to do is asked again soon; what it holds is counted.
TEST_F(ResourcesTest, AFullQueueIsLookedAtAgain) {
  limits.queued = 1;
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  const Set set{.to = {kFakeArena}, .element = 1, .count = 16};
  EXPECT_EQ(said(memory.on(set)), "taken");
  EXPECT_FALSE(work.poll());
  EXPECT_FALSE(work.full());
  EXPECT_EQ(work.again(), std::nullopt);
  EXPECT_EQ(said(memory.on(set)), "taken");
  EXPECT_FALSE(work.poll());
  EXPECT_TRUE(work.full());
  EXPECT_EQ(work.again(), std::chrono::microseconds(200));
  EXPECT_EQ(fake().run(1), 1);
  work.poll();
  EXPECT_FALSE(work.full());
  EXPECT_EQ(work.again(), std::nullopt);
}

TEST_F(LaunchesTest, KernelsHaveTheLayoutOfTheirModule) {
  const std::uint32_t right[] = {0, 8, 8, 4, 12, 4}, wrong[] = {0, 8, 8, 8, 12, 4};
  const auto open = [&](std::uint64_t number, std::string_view name, Bytes layout) {
    return said(modules.on(KernelOpen{{number}, {1}, name, layout}));
  };
  EXPECT_EQ(open(2, "add", std::as_bytes(std::span(wrong))),
            "the parameters of add lie at (0+8 8+4 12+4), the client says (0+8 8+8 12+4)");
  EXPECT_NE(open(2, "add", std::as_bytes(std::span(right)).first(23)), "taken");
  EXPECT_NE(open(2, "add", {}), "taken");
  EXPECT_EQ(open(2, "add", std::as_bytes(std::span(right))), "taken");
  EXPECT_EQ(open(3, "sub", {}), "the module has no kernel sub");
  EXPECT_EQ(open(0, "nothing", {}), "kernel 0 is there already") << "0 is nobody's number";
}

// With its module a kernel and a global go, and nothing else.
TEST_F(LaunchesTest, WhatIsUnloadedIsGone) {
  const auto image = digest_of(std::as_bytes(std::span(std::string_view("fake"))));
  EXPECT_EQ(said(modules.on(ModuleLoad{{2}, image})), "taken");
  EXPECT_EQ(said(modules.on(KernelOpen{{2}, {2}, "nothing", {}})), "taken");
  const auto place = [&](std::uint64_t module) {
    return (*modules.on(GlobalAddress{{module}, "counter"}))->address.value;
  };
  const std::uint64_t first = place(1), second = place(2);
  EXPECT_EQ(place(1), first);
  EXPECT_TRUE(allocations.holds(first, 4) && allocations.holds(second, 4));
  EXPECT_EQ(said(memory.on(Free{{first}})), fmt::format("nothing is allocated at {:#x}", first));
  EXPECT_EQ(said(modules.on(ModuleUnload{{1}})), "taken");
  EXPECT_EQ(said(modules.on(ModuleUnload{{1}})), "there is no module 1");
  EXPECT_EQ(launch({.kernel = {1}}), "there is no kernel 1");
  EXPECT_EQ(launch({.kernel = {2}}), "taken");
  EXPECT_FALSE(allocations.holds(first, 4));
  EXPECT_TRUE(allocations.holds(second, 4));
  EXPECT_EQ(replied<GlobalAddress>(modules.on(GlobalAddress{{2}, "none"})),
            "the module has no none");
}

// What is left of the device when modules go: nothing of them; and of graphs that used them, the
// nodes are given back.
TEST_F(LaunchesTest, GraphsOfWhatIsUnloadedAreRefused) {
  const auto image = digest_of(std::as_bytes(std::span(std::string_view("fake"))));
  EXPECT_EQ(said(modules.on(ModuleLoad{{2}, image})), "taken");
  EXPECT_EQ(said(modules.on(KernelOpen{{2}, {2}, "nothing", {}})), "taken");
  const std::size_t both = fake().objects();
  EXPECT_EQ(said(modules.on(ModuleUnload{{1}})), "taken");
  EXPECT_LT(fake().objects(), both);
  EXPECT_EQ(said(streams.on(StreamCreate{.stream = {1}})), "taken");
  EXPECT_EQ(said(graphs.on(CaptureBegin{{1}, 0})), "taken");
  EXPECT_EQ(said(streams.submit({1}, modules.checked({.stream = {1}, .kernel = {2}}).value())),
            "taken");
  EXPECT_EQ(replied<CaptureEnd>(graphs.on(CaptureEnd{{1}, {5}})), "taken");
  EXPECT_EQ(said(modules.on(ModuleUnload{{2}})), "taken");
  for (int again = 0; again < 5; ++again)
    EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{5}, {6}})),
              "a kernel of the graph has been unloaded");
  EXPECT_TRUE(captures.count(2)) << "one node of three is the graph's";
}

// Rows that a client gives are many numbers whose product and sum must not wrap around.
TEST_F(LaunchesTest, SetsAndCopiesStayInTheirMemory) {
  ASSERT_EQ(said(memory.on(Alloc{{kFakeArena}, 1024})), "taken");
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63, kAll = ~std::uint64_t{0};
  const auto set = [&](Set op) {
    op.to.value += kFakeArena;
    return said(memory.checked(op));
  };
  for (const std::uint32_t element : {1u, 2u, 4u})
    EXPECT_EQ(set({.element = element, .count = 1024 / element}), "taken") << element;
  for (const std::uint32_t element : {0u, 3u, 8u})
    EXPECT_EQ(set({.element = element, .count = 1}), fmt::format("elements of {} bytes", element));
  EXPECT_NE(set({.element = 4, .count = 257}), "taken");
  EXPECT_NE(set({.element = 4, .count = kHalf / 2 + 1}), "taken") << "4 times that is 4";
  EXPECT_NE(set({.element = 1, .count = kAll}), "taken");
  EXPECT_EQ(set({.element = 4, .count = 2, .rows = 4, .pitch = 256}), "taken");
  EXPECT_NE(set({.element = 4, .count = 2, .rows = 5, .pitch = 256}), "taken");
  EXPECT_NE(set({.element = 4, .count = 2, .rows = kAll, .pitch = 256}), "taken");
  EXPECT_NE(set({.element = 4, .count = 2, .rows = kHalf / 128 + 1, .pitch = 256}), "taken")
      << "that many rows wrap around to none";
  EXPECT_NE(set({.element = 4, .count = 2, .rows = 2, .pitch = 4}), "taken") << "they overlap";
  EXPECT_EQ(set({.to = {1}, .element = 1, .count = 1}), "taken");
  EXPECT_EQ(set({.to = {2}, .element = 4, .count = 1}), "0x700000000002 is no multiple of 4");
  EXPECT_NE(set({.element = 4, .count = 1, .rows = 2, .pitch = 6}), "taken");
  EXPECT_EQ(set({.element = 4, .count = 1, .rows = 1, .pitch = 6}), "taken") << "of no matter";
  EXPECT_EQ(set({.to = {4096}, .element = 4, .count = 0}), "taken") << "nothing at all";
  const auto copy = [&](std::uint64_t to, std::uint64_t from, std::uint64_t width,
                        std::uint64_t rows) {
    return said(memory.checked(
        CopyDevice{{}, {kFakeArena + to}, {kFakeArena + from}, 64, 32, width, rows}));
  };
  EXPECT_EQ(copy(0, 512, 32, 16), "taken");
  EXPECT_EQ(copy(0, 512, 32, 17),
            "copying to 32 bytes at 0x700000000000: no allocation holds them");
  EXPECT_EQ(copy(0, 544, 32, 16),
            "copying from 32 bytes at 0x700000000220: no allocation holds them");
  EXPECT_NE(copy(0, 512, 32, kAll), "taken");
  EXPECT_EQ(memory.checked(CopyDevice{{}, {}, {}, 64, 64, 0, 7})->rows, 0u) << "nothing to do";
}

TEST_F(LaunchesTest, AllocationsLieInTheArenaInWholeGrains) {
  const auto alloc = [&](std::uint64_t at, std::uint64_t bytes) {
    return said(memory.on(Alloc{{kFakeArena + at}, bytes}));
  };
  EXPECT_EQ(alloc(0, 0), "0 bytes at 0x700000000000: not multiples of 256");
  EXPECT_EQ(alloc(0, 255), "255 bytes at 0x700000000000: not multiples of 256");
  EXPECT_EQ(alloc(128, 256), "256 bytes at 0x700000000080: not multiples of 256");
  EXPECT_EQ(alloc(0, ~std::uint64_t{255}),
            "18446744073709551360 bytes at 0x700000000000 lie outside the arena");
  EXPECT_EQ(alloc(0, std::uint64_t{1} << 41),
            "2199023255552 bytes at 0x700000000000 lie outside "
            "the arena");
  EXPECT_EQ(alloc(256, 512), "taken");
  EXPECT_EQ(alloc(0, 512), "512 bytes at 0x700000000000: something is allocated there");
  EXPECT_EQ(alloc(512, 256), "256 bytes at 0x700000000200: something is allocated there");
  EXPECT_EQ(alloc(0, 256), "taken");
  EXPECT_EQ(alloc(768, 4096), "4096 bytes more than the 768 in use; 4096 are the session's limit");
  EXPECT_EQ(alloc(768, 4096 - 768), "taken");
  EXPECT_EQ(out.counts.memory, 4096u);
  EXPECT_EQ(fake().memory_used(), 4096u);
}

// What the heap has beyond its 8 MiB is of the session's memory.
TEST_F(LaunchesTest, AHeapCounts) {
  const auto limit = [this](std::uint64_t bytes) {
    const Reply<HeapLimit> answer = memory.on(HeapLimit{bytes});
    EXPECT_TRUE(answer.has_value());
    return *answer ? std::string("taken") : answer->error().reason;
  };
  EXPECT_EQ(limit(kHeapBytes), "taken");
  EXPECT_EQ(out.counts.memory, 0u);
  EXPECT_EQ(limit(kHeapBytes + 4097),
            "a heap of 8392705 bytes beside the 0 in use; 4096 and 8388608 are the session's "
            "limits");
  EXPECT_NE(limit(~std::uint64_t{0}), "taken");
  EXPECT_EQ(fake().heap(), kHeapBytes);
  EXPECT_EQ(limit(kHeapBytes + 4096), "taken");
  EXPECT_EQ(fake().heap(), kHeapBytes + 4096);
  EXPECT_EQ(out.counts.memory, 4096u);
  EXPECT_NE(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  EXPECT_EQ(limit(kHeapBytes + 4096 - 256), "taken") << "of all of it, not on top";
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  EXPECT_NE(limit(kHeapBytes + 4096), "taken");
  EXPECT_EQ(limit(1), "taken");
  EXPECT_EQ(out.counts.memory, 256u);
}

TEST_F(ResourcesTest, OnlySoManyAllocations) {
  limits.allocations = 2;
  for (const std::uint64_t at : {0, 256})
    EXPECT_EQ(said(memory.on(Alloc{{kFakeArena + at}, 256})), "taken");
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena + 512}, 256})), "2 allocations are the limit");
  EXPECT_EQ(said(memory.on(Free{{kFakeArena}})), "taken");
  work.poll();
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena + 512}, 256})), "taken");
}

TEST_F(ResourcesTest, EventsSayWhichIsMissing) {
  EXPECT_EQ(said(streams.on(EventCreate{.event = {1}})), "taken");
  EXPECT_EQ(said(streams.on(EventRecord{{2}, {}})), "there is no event 2");
  EXPECT_EQ(said(streams.on(EventRecord{{1}, {3}})), "there is no stream 3");
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{3}, {1}})), "there is no stream 3");
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{}, {2}})), "there is no event 2");
  EXPECT_EQ(replied<EventElapsed>(streams.on(EventElapsed{{1}, {2}})), "there is no event 2");
  EXPECT_EQ(replied<EventElapsed>(streams.on(EventElapsed{{3}, {1}})), "there is no event 3");
  EXPECT_EQ(replied<EventSync>(streams.on(EventSync{{2}})), "there is no event 2");
  EXPECT_EQ(replied<StreamSync>(streams.on(StreamSync{{2}})), "there is no stream 2");
  EXPECT_EQ(said(streams.on(StreamCreate{{1}, 2, 0})), "flags 0x2 of a stream");
  EXPECT_EQ(said(streams.on(EventDestroy{{1}})), "taken");
  EXPECT_EQ(said(streams.on(EventDestroy{{1}})), "there is no event 1");
  EXPECT_EQ(fake().objects(), 0u);
}

TEST_F(ResourcesTest, OnlyEventsWithATimeHaveATimeBetween) {
  EXPECT_EQ(said(streams.on(EventCreate{.event = {1}})), "taken");
  EXPECT_EQ(said(streams.on(EventCreate{.event = {2}, .flags = kNoTiming})), "taken");
  for (const std::uint64_t event : {1, 2})
    EXPECT_EQ(said(streams.on(EventRecord{{event}, {}})), "taken");
  fake().run();
  EXPECT_EQ(replied<EventElapsed>(streams.on(EventElapsed{{1}, {1}})), "taken");
  EXPECT_EQ(replied<EventElapsed>(streams.on(EventElapsed{{1}, {2}})), "the event has no time");
}

// A stream is gone for the client at once, and for the device once its work is done.
TEST_F(ResourcesTest, StreamsEndWithTheirWork) {
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  for (const std::uint32_t flags : {0u, kNonBlocking + 0u}) {
    const std::size_t before = fake().objects();
    EXPECT_EQ(said(streams.on(StreamCreate{{1}, flags, 0})), "taken");
    EXPECT_EQ(said(memory.on(Set{.stream = {1}, .to = {kFakeArena}, .element = 1, .count = 16})),
              "taken");
    EXPECT_EQ(said(streams.on(StreamDestroy{{1}})), "taken");
    EXPECT_EQ(said(streams.on(StreamDestroy{{1}})), "there is no stream 1");
    EXPECT_EQ(fake().objects(), before + 1);
    fake().run();
    work.poll();
    EXPECT_EQ(fake().objects(), before);
  }
  EXPECT_EQ(said(memory.on(FreeOnStream{{1}, {kFakeArena}})), "there is no stream 1");
  EXPECT_EQ(said(memory.on(FreeOnStream{{}, {kFakeArena}})), "taken");
  work.poll();
  EXPECT_EQ(fake().memory_used(), 0u);
}

TEST_F(ResourcesTest, GraphsAreBoundedTogether) {
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  EXPECT_EQ(said(graphs.on(GraphCreate{{1}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphCreate{{2}})), "1 graphs are the limit");
  const auto add = [&](std::uint64_t node, Bytes after = {}) {
    return said(graphs.on(GraphAdd{{1}, {node}, after, {}}));
  };
  EXPECT_EQ(add(0), "node 0 is there already");
  EXPECT_EQ(add(11), "taken");
  EXPECT_EQ(add(11), "node 11 is there already");
  const std::uint64_t after[] = {11, 12};
  EXPECT_EQ(add(13, std::as_bytes(std::span(after))), "there is no node 12 to come after");
  EXPECT_EQ(add(13, std::as_bytes(std::span(after)).first(12)), "half a node's number");
  EXPECT_EQ(add(12, std::as_bytes(std::span(after)).first(8)), "taken");
  EXPECT_EQ(add(13), "taken");
  EXPECT_EQ(add(14), "3 nodes are the limit");
  captures.forget(3, 0);  // as if there were more room
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{1}, {9}})), "taken");
  std::vector<std::vector<Id>> order;
  for (const GraphSpec::Node& node : fake().graphs().begin()->second.nodes)
    order.push_back(node.after);
  EXPECT_EQ(order, (std::vector<std::vector<Id>>{{}, {0}, {}}));
  EXPECT_EQ(said(graphs.on(GraphExecDestroy{{9}})), "taken");
  work.poll();
  EXPECT_TRUE(captures.count(3));
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{1}, {1}})),
            "1 graphs and 3 nodes are the limit");
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{2}, {1}})),
            "there is no graph 2");
  EXPECT_EQ(said(graphs.on(GraphDestroy{{1}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphDestroy{{1}})), "there is no graph 1");
  EXPECT_EQ(said(graphs.on(GraphCreate{{1}})), "taken");
  EXPECT_EQ(add(11), "taken");
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{1}, {7}})), "taken");
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{1}, {7}})),
            "graph 7 is there already");
  EXPECT_TRUE(captures.count(1));
  captures.forget(1, 0);
  EXPECT_FALSE(captures.count(2)) << "one node in the graph, one in what was made of it";
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{1}, {8}})),
            "1 graphs and 3 nodes are the limit");
  EXPECT_EQ(said(graphs.on(GraphLaunch{{7}, {}})), "taken");
  EXPECT_EQ(out.counts.launches, 1u);
  EXPECT_EQ(said(graphs.on(GraphSet{{1}, {7}, 0, {}})), "there is no node 0 that does anything");
  EXPECT_EQ(said(graphs.on(GraphSet{{1}, {8}, 0, {}})), "there is no executable graph 8");
  EXPECT_EQ(said(graphs.on(GraphSet{{2}, {}, 0, {}})), "there is no graph 2");
  EXPECT_EQ(said(graphs.on(GraphClone{{1}, {2}})), "1 graphs are the limit");
  EXPECT_EQ(replied<GraphUpdate>(graphs.on(GraphUpdate{{7}, {1}})), "taken");
  EXPECT_EQ(add(12), "taken");
  EXPECT_EQ(replied<GraphUpdate>(graphs.on(GraphUpdate{{7}, {1}})),
            "the graph has other nodes than the executable one");
  EXPECT_EQ(said(graphs.on(GraphExecDestroy{{7}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphExecDestroy{{7}})), "there is no executable graph 7");
  work.poll();
  EXPECT_TRUE(captures.count(1));
}

// A stream that waits for another of its capture comes after both: after what it did itself, too.
TEST_F(ResourcesTest, WhoJoinsKeepsWhatHeHadDone) {
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  for (const std::uint64_t handle : {1, 2}) {
    EXPECT_EQ(said(streams.on(StreamCreate{.stream = {handle}})), "taken");
    EXPECT_EQ(said(streams.on(EventCreate{.event = {handle}})), "taken");
  }
  const auto set = [&](std::uint64_t stream) {
    return said(memory.on(Set{.stream = {stream}, .to = {kFakeArena}, .element = 1, .count = 16}));
  };
  limits.graph_nodes = 10;
  EXPECT_EQ(said(graphs.on(CaptureBegin{{1}, 0})), "taken");
  EXPECT_EQ(set(1), "taken");
  EXPECT_EQ(said(streams.on(EventRecord{{1}, {1}})), "taken");
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{2}, {1}})), "taken");
  EXPECT_EQ(set(2), "taken");
  EXPECT_EQ(said(streams.on(EventRecord{{2}, {2}})), "taken");
  EXPECT_EQ(set(1), "taken");
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{1}, {2}})), "taken");
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{1}, {2}})), "taken");  // again: nothing new
  EXPECT_EQ(set(1), "taken");
  EXPECT_EQ(replied<CaptureEnd>(graphs.on(CaptureEnd{{1}, {5}})), "taken");
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{5}, {6}})), "taken");
  std::vector<std::vector<Id>> after;
  ASSERT_EQ(fake().graphs().size(), 1u);
  for (const GraphSpec::Node& node : fake().graphs().begin()->second.nodes)
    after.push_back(node.after);
  EXPECT_EQ(after, (std::vector<std::vector<Id>>{{}, {0}, {0}, {2, 1}}));
}

TEST_F(ResourcesTest, EventsOfOtherSessionsAreInNoGraph) {
  Descriptor file(::memfd_create("event", 0));
  ASSERT_EQ(::ftruncate(file.get(), SharedEvent::kBytes), 0);
  EXPECT_EQ(said(streams.on(EventCreate{.event = {1}})), "taken");
  EXPECT_EQ(said(streams.on(StreamCreate{.stream = {1}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphCreate{{1}})), "taken");
  streams.find(EventHandle{1})->shared = SharedEvent::in(file, 1);
  const std::string no = "a node with an event that other sessions have, too";
  EXPECT_EQ(said(graphs.on(GraphAdd{{1}, {11}, {}, frame_of(EventRecord{{1}, {}})})), no);
  EXPECT_EQ(said(graphs.on(GraphAdd{{1}, {11}, {}, frame_of(StreamWaitEvent{{}, {1}})})), no);
  EXPECT_EQ(said(streams.on(EventRecord{{1}, {1}, kExternal})), no);
  EXPECT_EQ(said(streams.on(StreamWaitEvent{{1}, {1}, kExternal})), no);
}

TEST_F(ResourcesTest, WhatAGraphUsesMustBeThereWhenItRuns) {
  EXPECT_EQ(said(memory.on(Alloc{{kFakeArena}, 256})), "taken");
  EXPECT_EQ(said(streams.on(StreamCreate{.stream = {1}})), "taken");
  EXPECT_EQ(said(graphs.on(CaptureBegin{.stream = {}})), "the default stream cannot be captured");
  EXPECT_EQ(said(graphs.on(CaptureBegin{{1}, 3})), "capture mode 3");
  EXPECT_EQ(said(graphs.on(CaptureBegin{{1}, 2})), "taken");
  EXPECT_EQ(said(graphs.on(CaptureBegin{{1}, 0})), "the stream is being captured already");
  EXPECT_EQ(said(memory.on(Set{.stream = {1}, .to = {kFakeArena}, .element = 1, .count = 16})),
            "taken");
  EXPECT_EQ(replied<CaptureEnd>(graphs.on(CaptureEnd{{1}, {5}})), "taken");
  EXPECT_EQ(replied<GraphInstantiate>(graphs.on(GraphInstantiate{{5}, {6}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphLaunch{{6}, {1}})), "taken");
  EXPECT_EQ(fake().run(), 1);
  EXPECT_EQ(said(memory.on(Free{{kFakeArena}})), "taken");
  EXPECT_EQ(said(graphs.on(GraphLaunch{{6}, {1}})),
            "a node uses 16 bytes at 0x700000000000, which were freed");
}

}  // namespace
}  // namespace partita::remote::server
