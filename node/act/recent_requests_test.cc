#include "act/recent_requests.h"

#include <gtest/gtest.h>

namespace partita::actuate {
namespace {

// 10 requests a second, looked at twice a second: in time until `stop`, then lost without a word.
RecentRequests silent_after(double stop, double until) {
  RecentRequests recent;
  for (double time = 0; time <= until; time += 0.5)
    recent.note(time, {10 * time, 10 * std::min(time, stop), 0, 0});
  return recent;
}

TEST(RecentRequests, EvenTrafficIsAnsweredInTime) {
  const RequestStretch stretch = silent_after(1e9, 30).last(3, 0.2);
  EXPECT_DOUBLE_EQ(stretch.seconds, 3);
  EXPECT_DOUBLE_EQ(stretch.asked, 30);
  EXPECT_DOUBLE_EQ(stretch.in_slo, 30);
  EXPECT_DOUBLE_EQ(stretch.missed(), 0);
}

TEST(RecentRequests, WhatIsNeverAnsweredIsMissedOnceItIsDue) {
  const RequestStretch early = silent_after(20, 21.5).last(3, 2);
  EXPECT_DOUBLE_EQ(early.missed(), 0);  // none is due yet
  EXPECT_DOUBLE_EQ(silent_after(20, 21).last(3, 0.95).missed(), 0.5) << "but the first half";
  const RequestStretch late = silent_after(20, 24).last(3, 0.5);
  EXPECT_DOUBLE_EQ(late.in_slo, 0);
  EXPECT_DOUBLE_EQ(late.missed(), 30);
  EXPECT_DOUBLE_EQ(late.asked, 30);
}

TEST(RecentRequests, RefusedOnesAreMissedAtOnceWhateverTheObjective) {
  RecentRequests recent;
  for (double time = 0; time <= 4; time += 0.5) recent.note(time, {100 * time, 0, 100 * time, 0});
  EXPECT_DOUBLE_EQ(recent.last(3, 30).missed(), 300);
}

TEST(RecentRequests, TrafficThatBeginsIsNotMissed) {
  RecentRequests recent;
  for (double time = 0; time <= 10; time += 0.5) {
    const double sent = std::max(0.0, time - 8) * 50;
    recent.note(time, {sent, std::max(0.0, time - 9) * 50, 0, 0});  // each takes a second
  }
  EXPECT_DOUBLE_EQ(recent.last(3, 1.5).missed(), 0);
}

TEST(RecentRequests, TrafficThatEndsIsNotMissed) {
  RecentRequests recent;
  for (double time = 0; time <= 12; time += 0.5) {
    const double sent = 100 * std::min(time, 10.0);
    recent.note(time, {sent, sent, 0, 0});
  }
  EXPECT_DOUBLE_EQ(recent.last(3, 4).missed(), 0);
}

TEST(RecentRequests, WhatClientsWithdrewIsNotMissed) {
  RecentRequests recent;
  for (double time = 0; time <= 10; time += 0.5)
    recent.note(time, {20 * time, 15 * time, 0, 5 * time});
  EXPECT_DOUBLE_EQ(recent.last(3, 0.1).missed(), 0);
}

TEST(RecentRequests, ACounterThatHasJustBegunSaysSo) {
  RecentRequests recent;
  EXPECT_EQ(recent.last(3, 1), RequestStretch{});
  recent.note(100, {});
  EXPECT_EQ(recent.last(3, 1), RequestStretch{});
  recent.note(101, {7, 7, 0, 0});
  EXPECT_DOUBLE_EQ(recent.last(3, 1).seconds, 1);
  EXPECT_DOUBLE_EQ(recent.last(60, 1).asked, 7);
}

TEST(RecentRequests, OftenNotedIsKeptCoarsely) {
  RecentRequests recent;
  for (int i = 0; i <= 100'000; ++i)
    recent.note(i * 0.001, {static_cast<double>(i), static_cast<double>(i), 0, 0});
  EXPECT_NEAR(recent.last(3, 0.1).asked, 3000, 1e-6);
  EXPECT_NEAR(recent.last(60, 0.1).asked, 60'000, 1e-6);
  EXPECT_LE(recent.entries(), 405U) << "four a second, while they are a minute old";
  EXPECT_GT(recent.entries(), 395U);
  for (int i = 100'001; i <= 400'000; i += 10)
    recent.note(i * 0.001, {static_cast<double>(i), static_cast<double>(i), 0, 0});
  EXPECT_LE(recent.entries(), 520U) << "of two minutes: a stretch and the longest objective";
}

// Once a service of language models, then an ordinary one: no requests that never were.
TEST(RecentRequests, AnotherServiceOfTheNameBeginsAnew) {
  RecentRequests recent;
  recent.note(100, {50, 50, 0, 0});
  recent.note(101, {60, 60, 0, 0});
  recent.note(102, {0, 0, 0, 0});
  recent.note(103, {2, 1, 0, 0});
  EXPECT_DOUBLE_EQ(recent.last(60, 1).asked, 2);
  EXPECT_DOUBLE_EQ(recent.last(60, 1).in_slo, 1);
}

// Two looks far apart are all that there is.
TEST(RecentRequests, SeldomNotedGrowsEvenlyInBetween) {
  RecentRequests recent;
  for (const double time : {0.0, 1000.0, 2000.0}) recent.note(time, {time, time, 0, 0});
  EXPECT_DOUBLE_EQ(recent.last(60, 1).asked, 60);
  EXPECT_DOUBLE_EQ(recent.last(60, 1).missed(), 0);
}

}  // namespace
}  // namespace partita::actuate
