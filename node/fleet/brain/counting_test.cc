#include "fleet/brain/counting.h"

#include <gtest/gtest.h>

#include <cmath>

namespace partita::fleet {
namespace {

TEST(Need, FollowsWhatArrivesInSteps) {
  plan::Service service;
  service.rate = Rps{100};
  EXPECT_EQ(need_of(service, 0), 100);
  EXPECT_EQ(need_of(service, 80), 100);
  EXPECT_NEAR(need_of(service, 100), 100 * std::pow(1.1, 2), 1e-9);
  EXPECT_GE(need_of(service, 1e9), 400 * (1 - 1e-9));
  EXPECT_LE(need_of(service, 1e9), 440.1);
}

TEST(Missing, IsWithoutTheLargestDomain) {
  EXPECT_EQ(missing_of(100, {{"a", 60}, {"b", 60}}, false), 0);
  EXPECT_EQ(missing_of(100, {{"a", 60}, {"b", 60}}, true), 40);
  EXPECT_EQ(missing_of(100, {{"a", 50}, {"b", 50}, {"c", 50}}, true), 0);
  EXPECT_EQ(missing_of(100, {}, true), 100);
}

}  // namespace
}  // namespace partita::fleet
