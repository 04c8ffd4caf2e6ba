#include "serve/gateway/senders.h"

#include <gtest/gtest.h>

#include <string>

namespace partita::serve {
namespace {

constexpr Nanos kSendersSecond = 1'000'000'000;

TEST(Senders, AreWellUntilTheyDoHarm) {
  Senders senders;
  EXPECT_FALSE(senders.watched("a", 0));
  EXPECT_FALSE(senders.proven("a"));
  for (int i = 0; i < kGoodToProve; ++i) senders.good("a", i);
  EXPECT_TRUE(senders.proven("a"));
  senders.harm("a", kSendersSecond);
  EXPECT_FALSE(senders.proven("a"));
  EXPECT_TRUE(senders.watched("a", 2 * kSendersSecond));
  EXPECT_FALSE(senders.watched("b", 2 * kSendersSecond));
  EXPECT_FALSE(senders.watched("a", kSendersSecond + kWatchedFor));
}

TEST(Senders, WaitLongerWithEveryHarmAndAreForgivenInTheEnd) {
  Senders senders;
  Nanos now = 0, before = 0;
  for (int i = 0; i < 20; ++i) {
    senders.harm("a", now);
    const Nanos wait = senders.wait("a", now);
    EXPECT_GE(wait, before);
    EXPECT_LE(wait, kHarmPauseAtMost);
    before = wait;
    now += wait;
  }
  EXPECT_EQ(before, kHarmPauseAtMost);
  now += 3 * kWatchedAtMost;
  EXPECT_EQ(senders.wait("a", now), 0);
  senders.harm("a", now);
  EXPECT_EQ(senders.wait("a", now), kHarmPause);
}

TEST(Senders, AWatchedOneSendsOneAtATime) {
  Senders senders;
  for (int i = 0; i < kFaultsToWatch; ++i) {
    EXPECT_FALSE(senders.watched("a", i));
    senders.fault("a", i);
  }
  EXPECT_TRUE(senders.watched("a", 10));
  EXPECT_EQ(senders.wait("a", 10), 0);
  senders.begun("a");
  EXPECT_GT(senders.wait("a", 10), 0);
  senders.ended("a", 20, 7);
  EXPECT_EQ(senders.wait("a", 20), 7 * kWatchedShare);
  EXPECT_EQ(senders.wait("a", 20 + 7 * kWatchedShare), 0);
}

// A worker that dies by itself makes suspects of many at once: that is one death.
TEST(Senders, SuspicionIsNoProof) {
  Senders senders;
  for (int i = 0; i < 50; ++i) senders.suspicion("a", i);
  EXPECT_FALSE(senders.watched("a", 50));
  senders.suspicion("a", 2 * kSendersSecond);
  senders.suspicion("a", 4 * kSendersSecond);
  EXPECT_TRUE(senders.watched("a", 4 * kSendersSecond));
  for (int i = 0; i < 10; ++i) senders.fault("b", i * (kFaultWindow + 1));
  EXPECT_FALSE(senders.watched("b", 10 * kFaultWindow));
}

TEST(Senders, AreBoundedAndWhoIsWatchedIsKept) {
  Senders senders;
  senders.harm("bad", 0);
  for (std::size_t i = 0; i < 2 * kMostSenders; ++i) senders.good(std::to_string(i), 1);
  EXPECT_TRUE(senders.watched("bad", 2));
  senders.ended("0", 3, 1);  // forgotten meanwhile
  EXPECT_EQ(senders.wait("0", 3), 0);
}

}  // namespace
}  // namespace partita::serve
