#include "serve/gateway/senders.h"

#include <gtest/gtest.h>

#include <ctime>
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

// What is far apart says nothing, whenever it was.
TEST(Senders, CountWithinAWindow) {
  Senders senders;
  const Nanos begin = 1'000 * kSendersSecond;
  for (int i = 0; i < 50; ++i) senders.suspicion("one death", begin + i);
  EXPECT_FALSE(senders.watched("one death", begin + 50));
  for (const int at : {0, 40, 80}) {
    senders.suspicion("seldom", begin + at * kSendersSecond);
    EXPECT_FALSE(senders.watched("seldom", begin + at * kSendersSecond)) << at;
  }
  for (const int at : {0, 10, 65}) {
    senders.fault("seldom at fault", begin + at * kSendersSecond);
    EXPECT_FALSE(senders.watched("seldom at fault", begin + at * kSendersSecond)) << at;
  }
  for (const Nanos at : {Nanos{0}, kFaultWindow / 2, kFaultWindow}) {
    senders.fault("at fault", begin + at);
    senders.suspicion("suspect", begin + at);
  }
  EXPECT_TRUE(senders.watched("at fault", begin + kFaultWindow));
  EXPECT_TRUE(senders.watched("suspect", begin + kFaultWindow));
}

// Nothing from before counts for or against it.
TEST(Senders, BeginAnewAfterHarmAndDoubt) {
  for (const bool harm : {true, false}) {
    Senders senders;
    for (int i = 0; i < kGoodToProve; ++i) senders.good("a", i);
    for (int i = 1; i < kFaultsToWatch; ++i) senders.fault("a", i), senders.suspicion("a", i);
    harm ? senders.harm("a", 10) : senders.doubt("a", 10);
    EXPECT_FALSE(senders.proven("a"));
    const Nanos after = 10 + kWatchedFor;
    for (int i = 0; i < kGoodToProve; ++i) {
      EXPECT_FALSE(senders.proven("a")) << i;
      senders.good("a", after);
    }
    EXPECT_TRUE(senders.proven("a"));
    if (!harm) continue;
    for (int i = 1; i < kFaultsToWatch; ++i) senders.fault("a", after);
    EXPECT_FALSE(senders.watched("a", after));
    senders.fault("a", after);
    EXPECT_TRUE(senders.watched("a", after));
  }
}

TEST(Senders, AreDoubtedFromADeathUntilTheRequestHasItsAnswer) {
  Senders senders;
  EXPECT_FALSE(senders.doubted("a", 0));
  senders.doubt("a", kSendersSecond);
  EXPECT_TRUE(senders.doubted("a", kSendersSecond));
  EXPECT_FALSE(senders.doubted("b", kSendersSecond));
  EXPECT_FALSE(senders.watched("a", kSendersSecond));
  senders.good("a", 2 * kSendersSecond);  // of another request
  EXPECT_TRUE(senders.doubted("a", kSendersSecond + kDoubtedFor - 1));
  EXPECT_FALSE(senders.doubted("a", kSendersSecond + kDoubtedFor));
  senders.clear("a");
  for (const Nanos at : {Nanos{0}, 3 * kSendersSecond}) EXPECT_FALSE(senders.doubted("a", at));
  for (std::size_t i = 0; i < 2 * kMostSenders; ++i) senders.good(std::to_string(i), 1);
  senders.doubt("c", 2);
  for (std::size_t i = 0; i < 2 * kMostSenders; ++i) senders.good(std::to_string(i), 3);
  EXPECT_TRUE(senders.doubted("c", 4));
}

TEST(Senders, AreWatchedFromTheirFirstHarm) {
  Senders senders;
  senders.harm("a", 10);
  senders.harm("a", 20);
  EXPECT_TRUE(senders.watched_since_before("a", 15, 30));
  EXPECT_FALSE(senders.watched_since_before("a", 10, 30));
  EXPECT_FALSE(senders.watched_since_before("b", 15, 30));
  EXPECT_TRUE(senders.watched_since_before("a", 15, 20 + 2 * kWatchedFor - 1));
  EXPECT_FALSE(senders.watched_since_before("a", 15, 20 + 2 * kWatchedFor));
}

TEST(Senders, OfManyWhoWasNotHeardOfForLongestIsForgotten) {
  Senders senders;
  for (int i = 0; i < kGoodToProve; ++i) senders.good("first", i), senders.good("second", i);
  const auto others = [&](std::size_t from, std::size_t to) {
    for (; from < to; ++from) senders.good(std::to_string(from), kSendersSecond);
  };
  others(0, kMostSenders - 2);
  EXPECT_TRUE(senders.proven("first") && senders.proven("second"));
  senders.good("first", 2 * kSendersSecond);
  others(kMostSenders, kMostSenders + 1);
  EXPECT_TRUE(senders.proven("first"));
  EXPECT_FALSE(senders.proven("second"));
}

// 10,000 tokens and 10,000 subjects of a provider may come in turns.
TEST(Senders, AllKeysThatAGatewayKnowsMayProveThemselves) {
  Senders senders;
  for (int i = 0; i < kGoodToProve; ++i)
    for (int key = 0; key < 20'000; key += i % 2 == 0 ? 1 : 100)
      if (key % 100 == 0 || i == 0) senders.good(std::to_string(key), i);
  for (int key = 0; key < 20'000; key += 100) EXPECT_TRUE(senders.proven(std::to_string(key)));
}

// CPU of so many senders, each of whom is new.
TEST(Senders, WhoComesWhenThereIsNoRoomCostsLittle) {
  Senders senders;
  const auto seconds_for = [&](std::size_t from, std::size_t count) {
    const std::clock_t began = std::clock();
    for (std::size_t i = from; i < from + count; ++i)
      senders.good(std::to_string(i), static_cast<Nanos>(i));
    return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  };
  const double room = seconds_for(0, kMostSenders);
  EXPECT_LT(seconds_for(kMostSenders, kMostSenders), 0.05 + 10 * room);
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
