#include "act/capacity.h"

#include <gtest/gtest.h>

namespace partita::actuate {
namespace {

// A floor is reached with the last digits missing: a billionth of it, and of 1 where it is small.
TEST(Capacities, ReachAFloorButForTheLastDigits) {
  EXPECT_TRUE(reaches(0.3 - 0.1 - 0.2, 0));
  EXPECT_TRUE(reaches(-0.9e-9, 0));
  EXPECT_FALSE(reaches(-1.1e-9, 0));
  EXPECT_TRUE(reaches(1e6 - 0.9e-3, 1e6));
  EXPECT_FALSE(reaches(1e6 - 1.1e-3, 1e6));
}

// By rate where all segments say one, before and after; else by slices.
TEST(Capacities, AreRatesOrSlices) {
  Capacities known, unknown;
  for (Capacities* of : {&known, &unknown}) {
    of->before({"a", 1, 1, 10}, 1);
    of->before({"", 1, 1, 99}, 4);
    of->after({"a", 1, 1, 10}, 1);
    of->after({"a", 1, 1, of == &known ? 20.0 : 0}, 2);
  }
  Capacities small;
  small.before({"a", 1, 1, 0.5}, 4);
  EXPECT_EQ(small.now(), std::vector{0.5});
  EXPECT_EQ(known.now(), std::vector{10.0});
  EXPECT_EQ(known.then(), std::vector{30.0});
  EXPECT_EQ(known.floors(0.5), std::vector{5.0});
  EXPECT_EQ(known.of({"a", 1, 1, 20}, 2), 20);
  EXPECT_EQ(unknown.now(), std::vector{1.0});
  EXPECT_EQ(unknown.then(), std::vector{3.0});
  EXPECT_EQ(unknown.of({"a", 1, 1, 20}, 2), 2);
  EXPECT_EQ(unknown.of({"b", 1, 1, 20}, 2), 0);
  EXPECT_EQ(unknown.service("b"), -1);
  EXPECT_EQ(unknown.services(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace partita::actuate
