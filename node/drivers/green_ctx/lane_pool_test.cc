// Lanes out of a pool on the fake GPU: nobody's SMs are another's.
#include "drivers/green_ctx/lane_pool.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "drivers/green_ctx/testing/fake_world.h"

namespace partita::drivers::green_ctx {
namespace {

std::shared_ptr<LanePool> open_pool() {
  return *LanePool::open({.vendor_library = PARTITA_FAKE_CUDA});
}

TEST(LanePool, GivesWholeAtomsThatNobodyHas) {
  const FakeWorld world({.sms = 132});
  {
    const auto pool = open_pool();
    const auto one = *pool->take(60), two = *pool->take(1);
    EXPECT_EQ(one->units(), 64);  // atoms of 8
    EXPECT_EQ(two->units(), 8);
    EXPECT_TRUE((one->atoms() & two->atoms()).none());
    EXPECT_EQ(pool->take(57).error().code, ErrorCode::no_room);
    EXPECT_EQ(pool->take(129).error().code, ErrorCode::limit);
    EXPECT_EQ((*pool->take(56))->units(), 56);  // and is gone again
    EXPECT_EQ(pool->free_units(), 56);
    EXPECT_EQ((*pool->take(0))->units(), 132);
  }
  EXPECT_EQ(world.live(), Live{});
}

TEST(LanePool, IsWhatItWasAfterManyCameAndWent) {
  const FakeWorld world({.sms = 64});
  const auto pool = open_pool();
  Rng rng(7);
  std::vector<std::shared_ptr<const PoolLane>> lanes;
  for (int round = 0; round < 200; ++round) {
    if (!lanes.empty() && rng.below(2) == 0) {
      lanes.erase(lanes.begin() + static_cast<long>(rng.below(lanes.size())));
      continue;
    }
    const int wanted = 1 + static_cast<int>(rng.below(30)), free = pool->free_units();
    auto lane = pool->take(wanted);
    ASSERT_EQ(lane.has_value(), (wanted + 7) / 8 * 8 <= free);
    if (!lane) continue;
    for (const auto& other : lanes) EXPECT_TRUE((other->atoms() & (*lane)->atoms()).none());
    lanes.push_back(*std::move(lane));
  }
  lanes.clear();
  EXPECT_EQ(pool->free_units(), 64);
}

TEST(LanePool, SharesWhatOthersHave) {
  const FakeWorld world({.sms = 64});
  const auto pool = open_pool();
  const auto own = *pool->take(64);
  const auto end = *pool->share(6, 24), all = *pool->share(0, 64);
  EXPECT_EQ(end->units(), 24);
  EXPECT_EQ(end->atoms(), hw::UnitMask{}.set(6).set(7).set(0));
  EXPECT_EQ(all->units(), 64);
  EXPECT_EQ(pool->free_units(), 0);
}

TEST(LanePool, MakesStreamsOnItsSms) {
  const FakeWorld world({.sms = 32});
  const auto pool = open_pool();
  const auto lane = *pool->take(8), all = *pool->take(0);
  for (const auto& one : {lane, all}) {
    const auto stream = one->create_stream(0);
    ASSERT_TRUE(stream);
    EXPECT_NE(*stream, nullptr);
    auto library = CudaLibrary::open(PARTITA_FAKE_CUDA);
    EXPECT_EQ((*library)->api().destroy_stream(*stream), abi::Return::success);
  }
}

}  // namespace
}  // namespace partita::drivers::green_ctx
