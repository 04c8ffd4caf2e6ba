// Canaries in virtual time: what is broken goes soon and hurts its share, what is well stays.
#include "serve/brain/canary.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

namespace partita::serve {
namespace {

constexpr Nanos kCanaryMs = 1'000'000, kCanarySecond = 1000 * kCanaryMs;

struct Version {
  double fails = 0;
  double takes_ms = 10;
};
struct Trial {
  Canary::State state = Canary::State::on_trial;
  Nanos ended = 0;  // decided
  long requests = 0, to_fresh = 0;
};

// Evenly spaced requests; answers come when they are due.
Trial run(const CanarySettings& settings, Version old, Version fresh, double rate,
          unsigned seed = 1, Nanos length = 120 * kCanarySecond) {
  std::mt19937_64 random(seed);
  const auto chance = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  Canary canary(settings, 0);
  std::multimap<Nanos, std::tuple<bool, bool, Nanos>> coming;
  Trial trial;
  for (Nanos now = 0; now < length && canary.state() == Canary::State::on_trial;
       now += static_cast<Nanos>(1e9 / rate)) {
    while (!coming.empty() && coming.begin()->first <= now) {
      const auto [side, well, latency] = coming.begin()->second;
      coming.erase(coming.begin());
      canary.answered(side, well, latency);
    }
    canary.step(now);
    ++trial.requests;
    const bool side = canary.takes_next();
    trial.to_fresh += side ? 1 : 0;
    const Version& version = side ? fresh : old;
    const auto latency =
        static_cast<Nanos>(version.takes_ms * (0.5 + chance()) * static_cast<double>(kCanaryMs));
    coming.insert({now + latency, {side, chance() >= version.fails, latency}});
    trial.ended = now;
  }
  trial.state = canary.state();
  return trial;
}

constexpr CanarySettings kFive{.share = 0.05, .slo = 100 * kCanaryMs};

TEST(Canary, GetsItsShareAndNoMore) {
  for (const double share : {0.01, 0.05, 0.3, 1.0}) {
    Canary canary({.share = share, .slo = 1}, 0);
    long taken = 0;
    for (long asked = 1; asked <= 10'000; ++asked) {
      taken += canary.takes_next() ? 1 : 0;
      ASSERT_LE(static_cast<double>(taken), share * static_cast<double>(asked) + 1e-6);
    }
    EXPECT_NEAR(static_cast<double>(taken), share * 10'000, 1);
  }
}

TEST(Canary, WhatIsBrokenIsTakenBackWithinTenSeconds) {
  for (const Version& broken : {Version{.fails = 1}, Version{.fails = 0.5},
                                Version{.takes_ms = 400}, Version{.fails = 0.3}}) {
    const double rate = broken.fails == 0.3 ? 200 : 40;
    for (unsigned seed = 1; seed <= 50; ++seed) {
      const Trial trial = run(kFive, {}, broken, rate, seed);
      ASSERT_EQ(trial.state, Canary::State::taken_back) << broken.fails << " seed " << seed;
      EXPECT_LT(trial.ended, 10 * kCanarySecond) << broken.fails << " seed " << seed;
      EXPECT_LE(static_cast<double>(trial.to_fresh), 0.05 * static_cast<double>(trial.requests));
    }
  }
}

TEST(Canary, WhatIsWellIsPromoted) {
  int promoted = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const Trial trial = run(kFive, {.fails = 0.002}, {.fails = 0.002}, 100, seed);
    promoted += trial.state == Canary::State::promoted ? 1 : 0;
    if (trial.state != Canary::State::promoted) continue;
    EXPECT_NEAR(static_cast<double>(trial.ended), kCanaryWatch, kCanarySecond);
  }
  EXPECT_GE(promoted, 99);
}

// A version that fails as often as the old one does is no worse, and few answers are no proof.
TEST(Canary, IsMeasuredByTheOldOne) {
  int promoted = 0;
  for (unsigned seed = 1; seed <= 100; ++seed)
    promoted +=
        run(kFive, {.fails = 0.1}, {.fails = 0.1}, 200, seed).state == Canary::State::promoted ? 1
                                                                                               : 0;
  EXPECT_GE(promoted, 90);
  EXPECT_EQ(run(kFive, {}, {}, 10).state, Canary::State::on_trial);
}

// In a total outage a version that fails is as good as the one that serves, and proves nothing.
TEST(Canary, WhatFailsAsAllDoesIsNotPromoted) {
  Canary canary({.share = 0.5, .slo = kCanaryMs}, 0);
  const auto answers = [&](long count, bool well) {
    for (long i = 0; i < count; ++i)
      for (const bool fresh : {false, true}) canary.answered(fresh, well, 0);
  };
  answers(2 * kFewestAnswers, false);
  EXPECT_EQ(canary.step(2 * kCanaryWatch), Canary::State::on_trial);
  answers(2 * kFewestAnswers - 1, true);
  EXPECT_EQ(canary.step(3 * kCanaryWatch), Canary::State::on_trial);
  answers(1, true);
  EXPECT_EQ(canary.step(4 * kCanaryWatch), Canary::State::promoted);
}

// Twice as slow and beyond half of the SLO: not at once, but it is not promoted.
TEST(Canary, WhatIsSlowIsTakenBackInTheEnd) {
  const Trial slow = run(kFive, {.takes_ms = 10}, {.takes_ms = 45}, 100);
  EXPECT_EQ(slow.state, Canary::State::taken_back);
  EXPECT_GE(slow.ended, kCanaryWatch);
  EXPECT_EQ(run(kFive, {.takes_ms = 2}, {.takes_ms = 8}, 100).state, Canary::State::promoted);
  const Trial more = run(kFive, {}, {.fails = 0.06}, 200);
  EXPECT_EQ(more.state, Canary::State::taken_back);
}

TEST(Canary, AfterTheDecision) {
  Canary canary({.share = 0.5, .slo = kCanaryMs}, 0);
  for (int i = 0; i < 3; ++i) canary.answered(true, false, 0);
  EXPECT_EQ(canary.state(), Canary::State::taken_back);
  EXPECT_FALSE(canary.why().empty());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(canary.takes_next());
  for (const bool shadow : {false, true}) {
    Canary good({.share = 0.5, .shadow = shadow, .slo = kCanaryMs}, 0);
    for (long i = 0; i < kFewestAnswers; ++i) good.answered(true, true, 0);
    EXPECT_EQ(good.step(kCanaryWatch), Canary::State::promoted);
    EXPECT_EQ(good.takes_next(), !shadow) << "copies have told what they can tell";
  }
}

}  // namespace
}  // namespace partita::serve
