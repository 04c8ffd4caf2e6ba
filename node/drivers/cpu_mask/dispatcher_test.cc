// The dispatcher without threads: which unit takes what, decided by hand or by random steps.
#include "drivers/cpu_mask/dispatcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/test_rounds.h"

namespace partita::drivers::cpu_mask {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

hw::UnitMask units_mask(std::initializer_list<std::size_t> units) {
  hw::UnitMask mask;
  for (const std::size_t unit : units) mask.set(unit);
  return mask;
}

Execution kernel(std::int64_t groups) {
  return {[](std::int64_t) {}, groups};
}

TEST(Dispatcher, AUnitTakesOnlyFromLanesThatHaveIt) {
  Dispatcher dispatcher(3);
  const auto lane = dispatcher.add(units_mask({0, 2}));
  dispatcher.push(*lane, kernel(2));
  EXPECT_FALSE(dispatcher.take(1));
  EXPECT_TRUE(dispatcher.sleeps(1));
  const auto first = dispatcher.take(0), second = dispatcher.take(2);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->first, 0);
  EXPECT_EQ(second->first, 1);
  EXPECT_FALSE(dispatcher.take(0));
  dispatcher.finish(*first, 0, 1);
  EXPECT_EQ(lane->queued(), 1);
  dispatcher.finish(*second, 2, 1);
  EXPECT_EQ(lane->queued(), 0);
  EXPECT_THAT(lane->ran, ElementsAre(1, 0, 1));
  dispatcher.remove(*lane);
  EXPECT_FALSE(dispatcher.take(2));
}

TEST(Dispatcher, BatchesShrinkTowardsTheEnd) {
  Dispatcher dispatcher(1);
  const auto lane = dispatcher.add(units_mask({0}));
  dispatcher.push(*lane, kernel(300));
  std::vector<std::int64_t> sizes;
  while (const auto batch = dispatcher.take(0)) {
    sizes.push_back(batch->last - batch->first);
    dispatcher.finish(*batch, 0, 1);
  }
  // One that says how long they last, then a quarter of what is left on one unit, at most
  // kMaxBatch, at least one.
  EXPECT_THAT(
      sizes, ElementsAre(1, 64, 58, 44, 33, 25, 18, 14, 10, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1));
}

TEST(Dispatcher, BatchesOfLongGroupsAreShort) {
  Dispatcher dispatcher(1);
  const auto lane = dispatcher.add(units_mask({0}));
  dispatcher.push(*lane, kernel(1'000));
  std::vector<std::int64_t> sizes;
  for (const std::int64_t each_ns : {30'000, 30'000, 500'000, 500'000}) {
    const auto batch = dispatcher.take(0);
    sizes.push_back(batch->last - batch->first);
    dispatcher.finish(*batch, 0, each_ns * sizes.back());
  }
  EXPECT_THAT(sizes, ElementsAre(1, 3, 3, 1));
}

// A work-group that comes again does so behind other lanes, with those that were taken with it.
TEST(Dispatcher, WorkGroupsComeAgainBehindOtherLanes) {
  Dispatcher dispatcher(1);
  const auto one = dispatcher.add(units_mask({0})), two = dispatcher.add(units_mask({0}));
  dispatcher.push(*one, kernel(20));
  const auto finish = [&](const Batch& batch, std::optional<std::int64_t> until) {
    dispatcher.finish(batch, 0, 1'000, until);
  };
  finish(*dispatcher.take(0), {});
  const auto batch = dispatcher.take(0);
  EXPECT_FALSE(dispatcher.wanted(0));
  dispatcher.push(*two, kernel(1));
  EXPECT_TRUE(dispatcher.wanted(0));
  ASSERT_GT(batch->last - batch->first, 2);
  finish(*batch, batch->first + 1);
  const auto other = dispatcher.take(0);
  EXPECT_EQ(other->lane, two.get());
  EXPECT_TRUE(dispatcher.wanted(0));
  finish(*other, {});
  const auto again = dispatcher.take(0);
  EXPECT_EQ(again->first, batch->first + 1);
  EXPECT_EQ(again->last, batch->last);
  EXPECT_EQ(one->queued(), 1);
  finish(*again, {});
  while (const auto rest = dispatcher.take(0)) finish(*rest, {});
  EXPECT_EQ(one->queued(), 0);
  EXPECT_THAT(one->ran, ElementsAre(20));
}

// Lanes of a unit with work-groups of different lengths, of which one comes late: while two have
// work, what they are given differs by the longest batch at most.
TEST(Dispatcher, LanesOfAUnitAreServedForTheSameTime) {
  constexpr std::size_t kLanes = 4;
  constexpr std::int64_t kGroupNs[kLanes] = {300, 20'000, 190'000, 1'100'000};
  constexpr std::int64_t kLongestNs = 1'100'000, kLateNs = 300'000'000;
  Dispatcher dispatcher(1);
  std::vector<std::shared_ptr<Lane>> lanes;
  for (std::size_t i = 0; i < kLanes; ++i) lanes.push_back(dispatcher.add(units_mask({0})));
  const auto push = [&](std::size_t lane) { dispatcher.push(*lanes[lane], kernel(1'000'000'000)); };
  for (std::size_t i = 1; i < kLanes; ++i) push(i);
  std::vector<std::int64_t> given(kLanes);  // since the last one came
  bool late = false;
  for (std::int64_t now = 0; now < 2 * kLateNs;) {
    if (!late && now > kLateNs) {
      late = true;
      push(0);
      given.assign(kLanes, 0);
    }
    const auto batch = dispatcher.take(0);
    const auto lane = static_cast<std::size_t>(
        std::ranges::find(lanes, batch->lane, &std::shared_ptr<Lane>::get) - lanes.begin());
    const std::int64_t took = kGroupNs[lane] * (batch->last - batch->first);
    dispatcher.finish(*batch, 0, took);
    given[lane] += took;
    now += took;
    const auto [least, most] = std::minmax_element(given.begin() + !late, given.end());
    ASSERT_LE(*most - *least, 2 * kLongestNs) << now;
  }
  EXPECT_THAT(given, testing::Each(testing::Ge(kLateNs / 4 - 2 * kLongestNs)));
}

TEST(Dispatcher, AUnitServesItsLanesInTurn) {
  Dispatcher dispatcher(1);
  std::vector<std::shared_ptr<Lane>> lanes;
  for (int i = 0; i < 3; ++i) lanes.push_back(dispatcher.add(units_mask({0})));
  for (const auto& lane : lanes) dispatcher.push(*lane, kernel(1'000));
  std::vector<Lane*> order;
  for (int i = 0; i < 6; ++i) order.push_back(dispatcher.take(0)->lane);
  EXPECT_THAT(order, ElementsAre(lanes[0].get(), lanes[1].get(), lanes[2].get(), lanes[0].get(),
                                 lanes[1].get(), lanes[2].get()));
}

TEST(Dispatcher, EndingALaneKeepsTheTurns) {
  Dispatcher dispatcher(1);
  const auto idle = dispatcher.add(units_mask({0}));
  const auto one = dispatcher.add(units_mask({0})), two = dispatcher.add(units_mask({0}));
  for (const auto& lane : {one, two}) dispatcher.push(*lane, kernel(1'000));
  EXPECT_EQ(dispatcher.take(0)->lane, one.get());
  dispatcher.remove(*idle);
  EXPECT_EQ(dispatcher.take(0)->lane, two.get());
  EXPECT_EQ(dispatcher.take(0)->lane, one.get());
}

TEST(Dispatcher, WakesOneSleeperPerBatchThatLeavesWork) {
  Dispatcher dispatcher(3);
  const auto lane = dispatcher.add(units_mask({0, 1, 2}));
  for (int unit = 0; unit < 3; ++unit) EXPECT_FALSE(dispatcher.take(unit));
  dispatcher.push(*lane, kernel(2));
  EXPECT_THAT(dispatcher.woken(), ElementsAre(0));
  const auto first = dispatcher.take(0);
  EXPECT_THAT(dispatcher.woken(), ElementsAre(1));
  const auto second = dispatcher.take(1);
  EXPECT_THAT(dispatcher.woken(), IsEmpty());
  EXPECT_TRUE(first && second && dispatcher.sleeps(2));
}

// A chain of events over many lanes ends in one call, and in order.
TEST(Dispatcher, EventsReleaseLanesThatWait) {
  Dispatcher dispatcher(1);
  std::vector<std::shared_ptr<Lane>> lanes;
  std::vector<std::shared_ptr<Event>> events;
  for (int i = 0; i < 5; ++i) {
    lanes.push_back(dispatcher.add(units_mask({0})));
    events.push_back(std::make_shared<Event>());
    if (i == 0) dispatcher.push(*lanes.back(), kernel(1));
    if (i > 0) dispatcher.push(*lanes.back(), Wait{events[static_cast<std::size_t>(i - 1)]});
    dispatcher.push(*lanes.back(), Record{events.back()});
  }
  dispatcher.push(*lanes.back(), kernel(1));
  const auto first = dispatcher.take(0);
  ASSERT_TRUE(first);
  EXPECT_FALSE(dispatcher.take(0));
  dispatcher.finish(*first, 0, 1);
  for (const auto& event : events) EXPECT_TRUE(event->finished);
  const auto last = dispatcher.take(0);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->lane, lanes.back().get());
}

// Random lanes and kernels, units that take and finish in random order. At every moment: a sleeping
// unit has no lane with work, unless another unit of that lane is awake and about to look for work.
TEST(Dispatcher, NoUnitSleepsBesideWork) {
  Rng rng(3);
  for (int round = 0; round < test_rounds(300); ++round) {
    const std::size_t units = 1 + rng.below(6);
    Dispatcher dispatcher(static_cast<int>(units));
    std::vector<std::shared_ptr<Lane>> lanes;
    for (std::uint64_t i = 0; i <= rng.below(5); ++i) {
      hw::UnitMask mask;
      mask.set(rng.below(units));
      for (std::size_t u = 0; u < units; ++u)
        if (rng.below(2) == 0) mask.set(u);
      lanes.push_back(dispatcher.add(mask));
    }
    std::vector<std::optional<Batch>> at_work(units);
    for (int step = 0; step < 200; ++step) {
      const std::size_t unit = rng.below(units);
      if (rng.below(4) == 0) {
        const std::int64_t groups = 1 + static_cast<std::int64_t>(rng.below(20));
        dispatcher.push(*lanes[rng.below(lanes.size())], kernel(groups));
      } else if (!dispatcher.sleeps(static_cast<int>(unit))) {
        if (at_work[unit]) dispatcher.finish(*at_work[unit], static_cast<int>(unit), 1);
        at_work[unit] = dispatcher.take(static_cast<int>(unit));
      }
      for (const auto& lane : lanes) {
        if (!lane->has_work()) continue;
        bool sleeper = false, searching = false;
        for (const int u : lane->units) {
          sleeper |= dispatcher.sleeps(u);
          searching |= !dispatcher.sleeps(u) && !at_work[static_cast<std::size_t>(u)];
        }
        ASSERT_TRUE(!sleeper || searching) << "round " << round << " step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace partita::drivers::cpu_mask
