#include "control/damping.h"

#include <gtest/gtest.h>

#include "control/testing/brain_fixture.h"

namespace partita::control {
namespace {

const Difference kMadeTwo{
    .made = {{{"3g.40gb", 0}, "GPU-0", "a", 0}, {{"3g.40gb", 4}, "GPU-0", "a", 0}},
    .services = {"a"},
    .gpus = {"GPU-0"}};

TEST(Damping, CoolsFromWhenAChangeWasThere) {
  const DampingSettings settings{.cooldown_s = 100};
  DampingKept kept;
  Damping damping(settings, kept);
  damping.adopt(kMadeTwo, true, kMonday);
  EXPECT_TRUE(damping.cools("a", kMonday + 99'999));
  EXPECT_FALSE(damping.cools("a", kMonday + 100'000));
  EXPECT_FALSE(damping.cools("b", kMonday));
  damping.begin_cooldown(kMonday, kMonday + 50'000);
  EXPECT_TRUE(damping.cools(Difference{{}, {}, {"GPU-0"}}, kMonday + 149'999));
  EXPECT_EQ(damping.just_made(kMonday + 149'999).size(), 2u);
  EXPECT_TRUE(damping.just_made(kMonday + 150'000).empty());
}

TEST(Damping, MovesCountForAnHourButThoseOfTheFirstPlan) {
  const DampingSettings settings{.moves_per_hour = 5};
  DampingKept kept;
  Damping damping(settings, kept);
  damping.adopt(kMadeTwo, true, kMonday);
  EXPECT_EQ(damping.moves_left(1, kMonday), 5);
  damping.adopt(kMadeTwo, false, kMonday);
  EXPECT_EQ(damping.moves_left(1, kMonday), 3);
  EXPECT_EQ(damping.moves_left(0.5, kMonday), 0);
  EXPECT_EQ(damping.moves_left(1, kMonday + 3'600'000), 5);
}

TEST(Tries, WaitTwiceAsLongEachTimeForTheSameThing) {
  Tries tries;
  EXPECT_TRUE(tries.may("gain", "x", 0));
  tries.note("gain", "x", 60, 0);
  EXPECT_FALSE(tries.may("gain", "x", 59'999));
  EXPECT_TRUE(tries.may("gain", "y", 0));
  tries.note("gain", "x", 60, 60'000);
  EXPECT_FALSE(tries.may("gain", "x", 179'999));
  EXPECT_TRUE(tries.may("gain", "x", 180'000));
  tries.forget();
  EXPECT_TRUE(tries.may("gain", "x", 60'000));
}

TEST(Tries, WaitForWhatIsAboutNothingToo) {
  Tries tries;
  tries.note("GPU-0", "", 60, 0);
  EXPECT_FALSE(tries.may("GPU-0", "", 59'999));
  EXPECT_TRUE(tries.may("GPU-0", "", 60'000));
  tries.note("GPU-0", "", 60, 60'000);
  EXPECT_FALSE(tries.may("GPU-0", "", 179'999));
}

}  // namespace
}  // namespace partita::control
