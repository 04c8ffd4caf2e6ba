// The parts of CudaBackend by themselves, on a libcuda that refuses wrong use.
#include <gmock/gmock.h>

#include <set>

#include "base/check.h"
#include "server/cuda/cuda_modules.h"
#include "server/cuda/cuda_streams.h"
#include "server/cuda/device_memory.h"
#include "server/cuda/lane_requests.h"
#include "server/cuda/testing/sim_library.h"
#include "server/cuda/transfers.h"

namespace partita::remote::cuda {
namespace {

using server::Completed;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CudaParts : public SimLibrary {
 protected:
  CudaParts()
      : SimLibrary(PARTITA_CUDA_SIM),
        context(*Context::open({.vendor_library = PARTITA_CUDA_SIM})) {}
  ~CudaParts() override {
    context.reset();
    EXPECT_EQ(objects(), 0);
    EXPECT_EQ(violations(), "");
  }
  // Until nothing is left on the streams.
  void finish(Streams& streams) {
    while (streams.poll() > 0) continue;
  }
  std::unique_ptr<Context> context;
};

TEST_F(CudaParts, ARefusalIsNotTheEndAndAFaultIs) {
  EXPECT_EQ(context->refused("cuMemCreate", server::kOutOfMemory).value().status,
            server::kOutOfMemory);
  EXPECT_EQ(context->refused("cuLaunchKernel", server::kLaunchOutOfResources).value().status,
            server::kLaunchOutOfResources);
  EXPECT_FALSE(context->finished("a stream", server::kNotReady));
  EXPECT_FALSE(context->dead());
  EXPECT_TRUE(context->finished("a stream", server::kIllegalAddress));
  EXPECT_TRUE(context->dead());
  static_cast<void>(context->refused("cuLaunchKernel", server::kLaunchFailure));
  const std::vector<Completed> told = context->told();
  ASSERT_THAT(told, SizeIs(1));  // the first fault alone
  EXPECT_EQ(told[0].status, server::kIllegalAddress);
  EXPECT_THAT(told[0].text, HasSubstr("a stream"));
  EXPECT_THAT(context->told(), IsEmpty());
}

TEST_F(CudaParts, WhoSharesTheContextIsToldOnceThatItIsLost) {
  int lost = 0;
  SharedUse use{.lanes = {lane(8), lane(24)}};
  use.lost = [&lost] { ++lost; };
  const auto shared = Context::open({.vendor_library = PARTITA_CUDA_SIM, .shared = use});
  CHECK(shared.has_value());
  for (int i = 0; i < 2; ++i)
    static_cast<void>((*shared)->refused("cuLaunchKernel", server::kLaunchFailure));
  EXPECT_EQ(lost, 1);
  EXPECT_THAT((*shared)->told()[0].text, HasSubstr("one's that shares its process"));
}

TEST_F(CudaParts, BuffersLieReadyAndComeBack) {
  PinnedBuffers pinned(*context);
  ASSERT_TRUE(pinned.make(3));
  std::set<Pinned> ready;
  for (int i = 0; i < 3; ++i) ready.insert(*pinned.take());
  EXPECT_THAT(ready, SizeIs(3));
  const Pinned more = *pinned.take();
  EXPECT_FALSE(ready.contains(more));
  pinned.give_back(more);
  EXPECT_EQ(*pinned.take(), more);
}

TEST_F(CudaParts, MemoryThatDoesNotFitLeavesNothing) {
  DeviceMemory memory(*context);
  server::DeviceSnapshot device = *context->look({});
  ASSERT_TRUE(memory.reserve(device));
  EXPECT_EQ(device.arena % device.granule, 0u);
  const int before = objects();
  EXPECT_EQ(memory.allocate(device.arena, 2 * device.total_memory).error().status,
            server::kOutOfMemory);
  EXPECT_EQ(objects(), before);
  ASSERT_TRUE(memory.allocate(device.arena, device.granule));
  memory.release(device.arena);
  EXPECT_EQ(objects(), before);
}

TEST_F(CudaParts, HoldsAreBoundedAndAStreamWaitsForItsOwn) {
  Holds holds(*context);
  ASSERT_TRUE(holds.open());
  PinnedBuffers pinned(*context);
  Streams streams(*context, pinned, {});
  ASSERT_TRUE(streams.open());
  std::vector<std::uint64_t> all;
  for (std::size_t i = 0; i < kMaxHolds; ++i) all.push_back(*holds.take());
  EXPECT_EQ(holds.take().error().status, server::kLaunchOutOfResources);
  const server::Id id = *streams.create({.blocking = false});
  ASSERT_TRUE(holds.wait(streams.at(id).stream, all[7]));
  holds.resume(all[8]);
  EXPECT_EQ(*holds.take(), all[8]);
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(streams.finished(id));
  holds.resume(all[7]);
  while (!streams.finished(id)) continue;
}

TEST_F(CudaParts, AnEventThatWasNotRecordedHoldsNobodyUp) {
  Events events(*context);
  const server::Id event = *events.create({}), other = *events.create({});
  EXPECT_TRUE(events.finished(event));
  EXPECT_TRUE(events.wait(nullptr, event));
  EXPECT_EQ(events.elapsed(event, other).error().status, server::kInvalidHandle);
  events.watch(event, 4);
  EXPECT_FALSE(events.poll());
  EXPECT_EQ(context->told()[0].tag, 4u);
  ASSERT_TRUE(events.record(nullptr, other));
  events.watch(other, 5);
  events.destroy(other);  // who watches is told
  EXPECT_EQ(context->told()[0].tag, 5u);
  EXPECT_FALSE(events.poll());
}

TEST_F(CudaParts, CopiesOfSeveralBuffersTellOnce) {
  DeviceMemory memory(*context);
  PinnedBuffers pinned(*context);
  server::DeviceSnapshot device = *context->look({});
  ASSERT_TRUE(memory.reserve(device));
  ASSERT_TRUE(memory.allocate(device.arena, 16 << 20));
  Streams streams(*context, pinned, {});
  ASSERT_TRUE(streams.open());
  Transfers transfers(*context, pinned, streams);
  Stream& stream = streams.at(server::kDefaultStream);
  std::vector<std::byte> sent(2 * kPinnedBytes + 5);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  ASSERT_TRUE(transfers.in(
      stream, {device.arena, std::make_shared<const std::vector<std::byte>>(sent)}, nullptr));
  EXPECT_THAT(stream.marks, SizeIs(3));
  ASSERT_TRUE(transfers.out(stream, {device.arena, sent.size(), 6}));
  finish(streams);
  const std::vector<Completed> told = context->told();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].tag, 6u);
  EXPECT_EQ(told[0].bytes, sent);
}

TEST_F(CudaParts, AModuleKnowsItsKernelsOnce) {
  Modules modules(*context);
  const server::Id module = *modules.load("sim cuda");
  const auto add = modules.find_kernel(module, "add"), crash = modules.find_kernel(module, "crash");
  EXPECT_EQ(modules.find_kernel(module, "add")->id, add->id);
  EXPECT_NE(crash->id, add->id);
  EXPECT_EQ(modules.name_of(crash->id), "crash");
  EXPECT_EQ(modules.find_kernel(module, "none").error().status, server::kNotFound);
  EXPECT_EQ(modules.load("no PTX").error().status, server::kInvalidImage);
  modules.unload(module);
}

TEST_F(CudaParts, ALaunchThatWasRefusedIsNotTimed) {
  std::vector<server::TimedKernel> request;
  SharedUse use{.lanes = {lane(8)}, .cursor = lanes::KernelCursor({{"a", 0}, {"b", 1}}, 2)};
  use.measured = [&request](const std::vector<server::TimedKernel>& all) { request = all; };
  {
    LaneRequests requests(*context, use);
    for (const char* kernel : {"a", "b"}) {
      EXPECT_EQ(requests.lane_of(0, kernel, {}), kernel[0] == 'a' ? 0u : 1u);
      ASSERT_TRUE(requests.begin_kernel(nullptr, kernel, {}));
      requests.end_kernel(nullptr, kernel[0] == 'a');
    }
    EXPECT_EQ(requests.lane_of(0, "c", {}), 2u);
    requests.request_ended(false);
    EXPECT_EQ(requests.lane_of(0, "a", {}), 0u);
    context->api().cuStreamSynchronize(nullptr);
  }
  ASSERT_THAT(request, SizeIs(1));
  EXPECT_EQ(request[0].name, "a");
}

}  // namespace
}  // namespace partita::remote::cuda
