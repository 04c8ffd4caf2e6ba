#include "serve/brain/waiting_room.h"

#include <gtest/gtest.h>

namespace partita::serve::waiting_room_test {
namespace {

constexpr Nanos kMs = 1'000'000;

std::vector<RequestId> requests_of(const std::vector<Waiting>& items) {
  std::vector<RequestId> ids;
  for (const Waiting& waiting : items) ids.push_back(waiting.item.request);
  return ids;
}

std::vector<RequestId> in_order(const WaitingRoom& room) {
  std::vector<RequestId> ids;
  room.each_queue([&](const WaitingRoom::Items& items) {
    for (const Waiting& waiting : items) ids.push_back(waiting.item.request);
  });
  return ids;
}

// One process of a member that takes up to four in 10 ms.
void open(WaitingRoom& room) {
  room.open({{{{{1, Millis{10}}, {4, Millis{10}}}}, 1}}, {0}, 50 * kMs);
}

TEST(WaitingRoom, EachQueueIsByKeyAndThenByArrival) {
  WaitingRoom room;
  for (const auto& [id, key] : {std::pair{1, 5}, {2, 3}, {3, 5}, {4, 4}})
    room.add({.key = key, .item = {RequestId(id), 0}});
  room.add_alone({.key = 9, .item = {5, 0}});
  room.add_step(2, {.key = 1, .item = {6, 0}});
  room.add_step(1, {.key = 2, .item = {7, 0}});
  EXPECT_EQ(in_order(room), (std::vector<RequestId>{5, 2, 4, 1, 3, 7, 6}));
  EXPECT_EQ(room.size(), 7);
  EXPECT_EQ(room.before(5), 4U);
  EXPECT_EQ(room.before(4), 2U);
  EXPECT_EQ(room.steps_of(1), 1);
  EXPECT_EQ(room.steps_of(3), 0);
}

// What came before it was open, was taken out or set apart is not dispatched: take() checks that
// the dispatcher has the same keys.
TEST(WaitingRoom, TheDispatcherHasWhatTheQueueHas) {
  WaitingRoom room;
  EXPECT_EQ(room.next(0).dispatch, 0);
  for (RequestId id = 1; id <= 6; ++id) room.add({.key = Nanos(id), .item = {id, 0}});
  open(room);
  room.take_out(2, {});
  room.set_apart([](const Waiting& waiting) { return waiting.item.request == 4; });
  room.add({.key = 0, .item = {7, 0}});
  const auto decision = room.next(kMs);
  ASSERT_EQ(decision.dispatch, 4);
  EXPECT_EQ(requests_of(room.take(4)), (std::vector<RequestId>{7, 1, 3, 5}));
  EXPECT_EQ(room.next(kMs).dispatch, 0) << "its process is busy";
  room.completed(0);
  ASSERT_EQ(room.next(60 * kMs).dispatch, 1);
  EXPECT_EQ(requests_of(room.take(1)), (std::vector<RequestId>{6}));
  EXPECT_EQ(room.take_alone(0).item.request, 4U);
  EXPECT_EQ(room.size(), 0);
}

TEST(WaitingRoom, StepsAreTakenInOrderAndTheOthersStay) {
  WaitingRoom room;
  for (RequestId id = 1; id <= 6; ++id) room.add_step(1, {.key = Nanos(id), .item = {id, 0}});
  const auto even = [](const Waiting& waiting) { return waiting.item.request % 2 == 0; };
  EXPECT_EQ(requests_of(room.take_steps(1, 2, even)), (std::vector<RequestId>{2, 4}));
  EXPECT_EQ(in_order(room), (std::vector<RequestId>{1, 3, 5, 6}));
  room.take_out(3, 2);
  EXPECT_EQ(room.steps_of(1), 4) << "it is no step of that worker";
  room.take_out(3, 1);
  EXPECT_EQ(requests_of(room.take_all_steps(1)), (std::vector<RequestId>{1, 5, 6}));
  EXPECT_TRUE(room.take_steps(1, 9, even).empty());
  EXPECT_TRUE(room.steps().empty());
}

}  // namespace
}  // namespace partita::serve::waiting_room_test
