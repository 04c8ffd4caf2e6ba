#include "act/batch/change_order.h"

#include <gtest/gtest.h>

#include "act/batch/testing/test_batch.h"

namespace partita::exec {
namespace {

// Two GPUs: on the first the changes of test::halves(), on the second one instance, made from 5 on
// and destroyed from 45 on, and one that is planned at the same time as the first of GPU 0.
Script two_gpus() {
  Script script = test::halves();
  script.gpus.push_back({.device = 1, .model = "A30-24GB"});
  script.visits.push_back({.gpu = 1, .place = {"2g.12gb", 0}, .size = 2});
  script.visits.push_back({.gpu = 1, .place = {"2g.12gb", 2}, .size = 2});
  script.gpus[1].changes = {{.visit = 4, .create = true, .planned = Planned{0, 10}},
                            {.visit = 3, .create = true, .planned = Planned{5, 15}},
                            {.visit = 3, .create = false, .planned = Planned{45, 55}},
                            {.visit = 4, .create = false}};
  return script;
}

struct ChangeOrderTest : testing::Test {
  const Script script = two_gpus();
  ChangeOrder order{script};
  void ready(int visit, bool create, Nanos not_before = 0) {
    order.ready(order.id(visit, create), not_before);
  }
  void done(int visit, bool create) { order.done(order.id(visit, create)); }
  // "3+", "3-"; nothing: "".
  std::string take(Nanos now) {
    const auto id = order.take(now);
    if (!id) return "";
    const Change& change = order.at(*id);
    return std::to_string(change.visit) + (change.create ? "+" : "-");
  }
};

TEST_F(ChangeOrderTest, FindsEveryChange) {
  EXPECT_EQ(order.id(0, true), (ChangeId{0, 0}));
  EXPECT_EQ(order.id(2, false), (ChangeId{0, 5}));
  EXPECT_EQ(order.id(3, true), (ChangeId{1, 1}));
  EXPECT_EQ(order.id(4, false), (ChangeId{1, 3}));
  EXPECT_EQ(order.at({1, 2}).visit, 3);
  EXPECT_FALSE(order.at({1, 2}).create);
  EXPECT_FALSE(order.is_done({1, 2}));
  done(3, false);
  EXPECT_TRUE(order.is_done({1, 2}));
}

TEST_F(ChangeOrderTest, ThePlannedOneThatComesFirstNeedNotWaitForItsTime) {
  EXPECT_EQ(take(100), "");
  EXPECT_EQ(order.wake(0), std::nullopt);
  // Of two that are planned for the same time the first GPU's comes first.
  ready(4, true);
  ready(0, true);
  EXPECT_EQ(take(0), "0+");
  EXPECT_EQ(take(0), "") << "what was taken is ready no more, and not over yet";
  EXPECT_EQ(order.wake(0), 1) << "the other one a nanosecond after its time";
  EXPECT_EQ(take(1), "4+");
  EXPECT_EQ(order.wake(0), std::nullopt);
}

TEST_F(ChangeOrderTest, OneOvertakesOnlyOnceItsTimeHasPassed) {
  ready(3, true);
  EXPECT_EQ(order.wake(0), 6);
  EXPECT_EQ(order.wake(5), 6);
  EXPECT_EQ(order.wake(6), std::nullopt) << "that is now";
  EXPECT_EQ(take(5), "");
  done(0, true);
  EXPECT_EQ(take(5), "") << "one planned before it is still to come";
  done(4, true);
  EXPECT_EQ(take(0), "3+") << "it is the next one";
}

TEST_F(ChangeOrderTest, NotBeforeIsKept) {
  ready(0, true, 7);
  EXPECT_EQ(take(6), "");
  EXPECT_EQ(order.wake(0), 7);
  EXPECT_EQ(take(7), "0+");
  ready(3, true, 20);
  EXPECT_EQ(order.wake(0), 20);
  ready(3, true, 9);  // the last word counts
  EXPECT_EQ(order.wake(0), 9);
  EXPECT_EQ(take(8), "");
  EXPECT_EQ(take(9), "3+");
}

TEST_F(ChangeOrderTest, OnAGpuTheFirstThatMayBeginGoes) {
  ready(1, true);
  ready(2, true, 80);
  ready(0, false, 60);
  EXPECT_EQ(take(45), "1+") << "those before it may not begin yet";
  EXPECT_EQ(order.wake(45), 60);
  EXPECT_EQ(take(60), "0-");
  EXPECT_EQ(order.wake(60), 80);
}

TEST_F(ChangeOrderTest, OfSeveralGpusThePlannedTimeDecides) {
  ready(1, true);  // 40
  ready(3, true);  // 5
  EXPECT_EQ(take(90), "3+");
  EXPECT_EQ(take(90), "1+");
  ready(0, false);  // 30
  ready(3, false);  // 45
  EXPECT_EQ(take(90), "0-");
  EXPECT_EQ(take(90), "3-");
}

TEST_F(ChangeOrderTest, WhatIsNotPlannedGoesLast) {
  ready(4, false);
  ready(1, false);
  EXPECT_EQ(take(1000), "");
  EXPECT_EQ(order.wake(0), std::nullopt);
  for (const int visit : {0, 1, 2, 3, 4}) done(visit, true);
  done(0, false);
  done(0, false);  // once more is nothing
  EXPECT_EQ(take(1000), "") << "one is left";
  ready(3, false);
  EXPECT_EQ(take(1000), "3-");
  EXPECT_EQ(take(1000), "") << "taken is not over";
  done(3, false);
  EXPECT_EQ(take(0), "1-") << "of those without a time the first GPU's";
  EXPECT_EQ(take(0), "4-");
}

TEST_F(ChangeOrderTest, WhatIsOverIsReadyNoMore) {
  ready(0, true);
  done(0, true);
  EXPECT_EQ(take(1000), "");
  // One that was taken and comes again.
  ready(4, true);
  EXPECT_EQ(take(0), "4+");
  ready(4, true, 3);
  EXPECT_EQ(take(2), "");
  EXPECT_EQ(take(3), "4+");
}

TEST_F(ChangeOrderTest, OnAGpuThatIsLeftInAHurryNothingWaitsForWhatIsPlanned) {
  ready(4, false, 4);
  ready(1, false, 4);
  order.hurry(1);
  EXPECT_EQ(order.wake(0), 4);
  EXPECT_EQ(take(3), "");
  EXPECT_EQ(take(4), "4-");
  EXPECT_EQ(take(1000), "");
}

}  // namespace
}  // namespace partita::exec
