#include "serve/brain/worker_pool.h"

#include <gtest/gtest.h>

namespace partita::serve::worker_pool_test {
namespace {

constexpr Nanos kMs = 1'000'000;

profile::BatchCurve fast() { return {{{1, Millis{2}}, {4, Millis{4}}, {8, Millis{6}}}}; }
profile::BatchCurve slow() { return {{{1, Millis{5}}, {4, Millis{11}}}}; }

std::vector<Waiting> items_of(std::initializer_list<RequestId> requests) {
  std::vector<Waiting> items;
  for (const RequestId id : requests) items.push_back({.item = {id, 0}});
  return items;
}

TEST(WorkerPool, WorkersOfOneDeviceAreOneMember) {
  const ServiceSettings settings{.slo = 100 * kMs};
  WorkerPool pool(settings);
  pool.join(3, {"b", slow(), 2});
  pool.join(1, {"a", fast(), 1});
  pool.join(2, {"a", fast(), 1});
  pool.begin(0, 3, kMs, items_of({1}));
  const WorkerPool::Members all = pool.arrange();
  EXPECT_EQ(all.members, (std::vector<plan::PoolMember>{{fast(), 2}, {slow(), 2}}));
  EXPECT_EQ(all.busy, (std::vector<int>{0, 1}));
  EXPECT_EQ(pool.size(), 3);
  EXPECT_DOUBLE_EQ(pool.capacity_rps(), 2 * 8 / 6e-3 + 2 * 4 / 11e-3);
  EXPECT_EQ(pool.spare(), 89 * kMs);
  EXPECT_EQ(pool.take_idle(0), 1U);
  EXPECT_EQ(pool.first_idle(), 2U);
  EXPECT_EQ(pool.take_idle(0), 2U);
  EXPECT_EQ(pool.first_idle(), 3U);
  EXPECT_TRUE(pool.usable(3));
  EXPECT_FALSE(pool.idle(3));
}

TEST(WorkerPool, WhoLeavesIsDrainedOnceItRunsNothing) {
  const ServiceSettings settings{.slo = 100 * kMs};
  WorkerPool pool(settings);
  for (const WorkerId id : {1, 2, 3}) pool.join(id, {"a", fast(), 1});
  const BatchId batch = pool.begin(0, 1, 2 * kMs, items_of({7}));
  pool.begin(0, 3, 2 * kMs, items_of({8}));
  for (const WorkerId id : {1, 2, 3}) EXPECT_TRUE(pool.leave(id));
  EXPECT_FALSE(pool.leave(2));
  EXPECT_TRUE(pool.arrange().members.empty());
  EXPECT_EQ(pool.drained(), std::vector<WorkerId>{2});
  const auto ended = pool.end(2 * kMs, batch);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->member, -1);
  EXPECT_EQ(ended->items.front().item.request, 7U);
  EXPECT_FALSE(pool.end(2 * kMs, batch));
  EXPECT_EQ(pool.take_back(3).front().item.request, 8U);
  EXPECT_EQ(pool.drained(), (std::vector<WorkerId>{1, 3}));
  EXPECT_TRUE(pool.lose(3).empty());
  EXPECT_FALSE(pool.has(3));
}

TEST(WorkerPool, TheLastOfSeveralIsKeptUnlessOneIsPlanned) {
  ServiceSettings settings{.slo = 100 * kMs};
  WorkerPool pool(settings);
  pool.join(1, {"a", fast(), 1});
  pool.arrange();
  EXPECT_FALSE(pool.last_is_kept()) << "there never was another";
  pool.join(2, {"a", fast(), 1});
  pool.arrange();
  EXPECT_FALSE(pool.last_is_kept());
  EXPECT_TRUE(pool.suspend(2, true));
  pool.arrange();
  EXPECT_TRUE(pool.last_is_kept());
  settings.planned_workers = 1;
  EXPECT_FALSE(pool.last_is_kept());
}

// 6 ms were predicted and 18 taken: the drift goes a twentieth of the way from 1 to 3.
TEST(WorkerPool, PredictionsFollowTheDrift) {
  ServiceSettings settings{.slo = 100 * kMs};
  WorkerPool pool(settings);
  pool.join(1, {"a", fast(), 1});
  pool.arrange();
  const BatchId batch = pool.begin(0, pool.take_idle(0), 6 * kMs, items_of({1, 2, 2}));
  EXPECT_EQ(items_of(pool, 2),
            (std::vector<std::pair<BatchId, std::uint32_t>>{{batch, 1}, {batch, 2}}));
  EXPECT_EQ(pool.predicted_finish(kMs, 8, 0, {}), 12 * kMs) << "behind what runs";
  EXPECT_EQ(pool.predicted_finish(kMs, 8, 1, {}), 14 * kMs) << "and one that runs alone";
  EXPECT_EQ(pool.predicted_step(kMs, 1, 8), 14 * kMs) << "a full batch, then it alone";
  EXPECT_EQ(pool.predicted_step(kMs, 2, 8), kMs) << "nobody knows that worker";
  EXPECT_EQ(pool.first_overdue(kMs), 7 * kMs + 1);
  EXPECT_TRUE(pool.overdue(7 * kMs, kMs).empty());
  EXPECT_EQ(pool.overdue(7 * kMs + 1, kMs), std::vector<WorkerId>{1});
  settings.predictable = false;
  EXPECT_TRUE(pool.overdue(7 * kMs + 1, kMs).empty());
  EXPECT_EQ(pool.end(18 * kMs, batch)->member, 0);
  EXPECT_DOUBLE_EQ(pool.drift(), 1.1);
  EXPECT_EQ(pool.predicted_finish(20 * kMs, 8, 0, {}), 20 * kMs + 6'600'000);
}

}  // namespace
}  // namespace partita::serve::worker_pool_test
