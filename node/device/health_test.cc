#include "device/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::device {
namespace {

using Kind = HealthEvent::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

HealthReading reading(long errors, bool pending, bool failed, int recovery) {
  return {"GPU-0", false, errors, pending, failed, recovery};
}
HealthEvent event(Kind kind, int code) { return {"GPU-0", kind, code}; }

TEST(Health, WhatIsWrongAtTheBeginningIsNewsOnce) {
  HealthChanges changes;
  EXPECT_THAT(
      changes.hear(reading(2, true, false, 1)),
      ElementsAre(event(Kind::ecc, 2), event(Kind::rows_pending, 1), event(Kind::recovery, 1)));
  EXPECT_THAT(changes.hear(reading(2, true, false, 1)), IsEmpty());
  EXPECT_THAT(changes.hear(reading(3, true, false, 1)), ElementsAre(event(Kind::ecc, 3)));
}

TEST(Health, ThatNothingIsWrongIsNewsAtTheBeginning) {
  HealthChanges changes;
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), ElementsAre(event(Kind::well, 1)));
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), IsEmpty());
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-1", .uncorrected_errors = 0}),
              ElementsAre(HealthEvent{"GPU-1", Kind::well, 0}));
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-2"}), IsEmpty());  // it tells nothing
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-3", .recovery = 1}),
              ElementsAre(HealthEvent{"GPU-3", Kind::recovery, 1}));
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-4", .lost = true}), IsEmpty());
}

TEST(Health, WhatIsOverWasReset) {
  HealthChanges changes;
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), ElementsAre(event(Kind::well, 1)));
  changes.hear(reading(5, false, true, 2));
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), ElementsAre(event(Kind::reset, 0)));
  // Reset, and wrong again before anybody looked: 5 -> 0 -> 1.
  changes.hear(reading(5, false, false, 0));
  EXPECT_THAT(changes.hear(reading(1, false, false, 0)),
              ElementsAre(event(Kind::reset, 0), event(Kind::ecc, 1)));
}

TEST(Health, SilenceIsNotACure) {
  HealthChanges changes;
  changes.hear(reading(5, true, false, 1));
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-0"}), IsEmpty());
  EXPECT_THAT(changes.hear(reading(5, true, false, 1)), IsEmpty());
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-1", .recovery = 1}),
              ElementsAre(HealthEvent{"GPU-1", Kind::recovery, 1}));
}

TEST(Health, AGpuThatIsThereAgainWasReset) {
  HealthChanges changes;
  changes.hear(reading(0, false, false, 0));
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-0", .lost = true}), IsEmpty());
  EXPECT_THAT(changes.hear({.gpu_uuid = "GPU-0", .lost = true}), IsEmpty());
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), ElementsAre(event(Kind::reset, 0)));
  EXPECT_THAT(changes.hear(reading(0, false, false, 0)), IsEmpty());
}

TEST(Health, CountsBeyondAnIntStayCounts) {
  HealthChanges changes;
  EXPECT_THAT(changes.hear(reading(1L << 40, false, false, 0)),
              ElementsAre(event(Kind::ecc, 2147483647)));
}

}  // namespace
}  // namespace partita::device
