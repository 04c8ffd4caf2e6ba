#include "serve/brain/request_book.h"

#include <gtest/gtest.h>

namespace partita::serve::request_book_test {
namespace {

constexpr Nanos kMs = 1'000'000;

struct Desk {
  ServiceSettings settings{.slo = 100 * kMs};
  WaitingRoom room;
  RequestBook book{settings, room};

  // The room's queues in order, taken out of it.
  std::vector<Waiting> take_all() {
    std::vector<Waiting> all;
    room.each_queue([&](const WaitingRoom::Items& items) {
      all.insert(all.end(), items.begin(), items.end());
    });
    for (const Waiting& one : all) room.take_out(one.item.request, book.of(one).wish.worker);
    return all;
  }
};

TEST(RequestBook, KeysAreByDeadlineAndPriority) {
  const Desk desk;
  const Nanos slo = desk.settings.slo;
  EXPECT_EQ(desk.book.key_of({.arrived = 5}), 5);
  EXPECT_EQ(desk.book.key_of({.arrived = 5, .deadline = slo}), 0);
  EXPECT_EQ(desk.book.key_of({.arrived = 5, .deadline = 9 * slo}), 5) << "a late one does not wait";
  EXPECT_EQ(desk.book.key_of({.arrived = 5, .priority = 2}), 5 - 2 * slo);
  EXPECT_EQ(desk.book.key_of({.arrived = 5, .priority = -99}), 5 + kMaxPriority * slo);
}

// Of a batch that others were in, who failed runs again alone; alone it fails by itself.
TEST(RequestBook, WhoFailsBesideOthersRunsAgainAlone) {
  Desk desk;
  desk.book.add(0, 1, {});
  desk.book.add(0, 2, {.deadline = 50 * kMs});
  desk.book.add(0, 3, {.idempotent = false});
  EXPECT_EQ(desk.book.begin(kMs, desk.take_all()), 50 * kMs);
  EXPECT_TRUE(desk.book.running(1));
  const std::vector<Waiting> ran = {{.item = {1, 0}}, {.item = {2, 0}}, {.item = {3, 0}}};
  const bool all[] = {true, true, true}, none[] = {false};
  desk.book.ended(2 * kMs, ran, all);
  EXPECT_EQ(desk.book.finished(), (std::vector<Finished>{{3, Outcome::failed}}));
  ASSERT_EQ(desk.room.alone().size(), 2U);
  desk.book.begin(3 * kMs, {desk.room.take_alone(0)});
  desk.book.begin(3 * kMs, {desk.room.take_alone(0)});
  const Waiting one{.item = {1, 0}}, two{.item = {2, 0}};
  desk.book.ended(4 * kMs, {two}, none);
  desk.book.ended(101 * kMs, {one}, all);
  EXPECT_EQ(desk.book.finished(),
            (std::vector<Finished>{{2, Outcome::done}, {1, Outcome::failed}}));
  const ServiceCounters& counters = desk.book.counters();
  EXPECT_EQ(counters.rerun, 2);
  EXPECT_EQ(counters.in_slo, 1);
  EXPECT_EQ(counters.batches, 3);
  EXPECT_EQ(counters.items, 5);
}

TEST(RequestBook, WhatWasInFlightAtTwoDeathsIsHarmful) {
  Desk desk;
  desk.book.add(0, 1, {.items = 2, .trusted = false});
  for (int death = 1; death <= kMostDeaths; ++death) {
    const std::vector<Waiting> items = desk.take_all();
    ASSERT_EQ(items.size(), 2U);
    EXPECT_EQ(desk.book.of(items[0]).suspect(), death == 2);
    desk.book.begin(0, items);
    desk.book.run_again(0, items);
  }
  EXPECT_EQ(desk.book.finished(), (std::vector<Finished>{{1, Outcome::harmful}}));
  EXPECT_EQ(desk.room.size(), 0);
  EXPECT_EQ(desk.book.counters().requeued, 2);
}

TEST(RequestBook, ACancelledRequestIsNotFinished) {
  Desk desk;
  desk.book.add(0, 1, {});
  desk.book.add(0, 2, {.items = 2});
  EXPECT_FALSE(desk.book.cancel(1));
  EXPECT_FALSE(desk.book.cancel(1));
  const Waiting first = desk.take_all().front();
  desk.book.begin(0, {first});
  EXPECT_TRUE(desk.book.cancel(2));
  EXPECT_TRUE(desk.book.running(2));
  const bool well[] = {false};
  desk.book.ended(0, {first}, well);
  EXPECT_FALSE(desk.book.running(2));
  EXPECT_TRUE(desk.book.finished().empty());
  EXPECT_EQ(desk.book.counters().cancelled, 2);
}

TEST(RequestBook, PatienceEndsForThoseThatHaveNone) {
  for (const auto impatient : {Impatient::none, Impatient::suspects, Impatient::all}) {
    Desk desk;
    desk.book.add(0, 1, {});
    desk.book.add(0, 2, {.trusted = false, .alone = true});
    desk.book.add(0, 3, {.deadline = 30 * kMs});
    EXPECT_EQ(desk.book.next_expiry(impatient), 30 * kMs);
    desk.book.expire(30 * kMs, impatient);
    EXPECT_EQ(desk.book.finished(), (std::vector<Finished>{{3, Outcome::expired}}));
    const Nanos last = kPatience * desk.settings.slo;
    EXPECT_EQ(desk.book.next_expiry(impatient),
              impatient == Impatient::none ? plan::kForever : last);
    desk.book.expire(last, impatient);
    std::vector<Finished> expected;
    if (impatient != Impatient::none) expected.push_back({2, Outcome::expired});
    if (impatient == Impatient::all) expected.push_back({1, Outcome::expired});
    EXPECT_EQ(desk.book.finished(), expected);
  }
}

TEST(RequestBook, StepsMoveAndFail) {
  Desk desk;
  desk.book.add(0, 1, {.idempotent = false, .worker = 1, .sequence = 4});
  desk.book.move_step(desk.room.take_all_steps(1).front(), 2);
  EXPECT_EQ(desk.room.steps_of(2), 1);
  desk.book.fail(0, desk.room.take_all_steps(2));
  EXPECT_EQ(desk.book.finished(), (std::vector<Finished>{{1, Outcome::failed}}));
}

}  // namespace
}  // namespace partita::serve::request_book_test
