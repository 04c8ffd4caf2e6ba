#include "control/report.h"

#include <gtest/gtest.h>

namespace partita::control {
namespace {

TEST(Report, SaysOnceUntilItsKeyIsForgotten) {
  Report report;
  report.begin(5, 100);
  report.tell(NoticeKind::health, "k", "GPU-0", "it is ill");
  report.tell(NoticeKind::health, "k", "GPU-0", "it is still ill");
  EXPECT_EQ(report.take_news().size(), 1u);
  report.untell("k");
  report.tell(NoticeKind::health, "k", "GPU-0", "it is ill again");
  EXPECT_EQ(report.take_news().at(0).sentence, "it is ill again");
  EXPECT_EQ(report.notices(), (std::vector<std::string>{"it is ill again", "it is ill"}));
  report.over("k");
  EXPECT_EQ(report.notices(), (std::vector<std::string>{"it is ill"}));
}

TEST(Report, AnotherSentenceTakesThePlaceOfTheOneBefore) {
  Report report;
  for (const char* sentence : {"line 3", "line 3", "line 7"})
    report.tell_anew(NoticeKind::other, "file", "", sentence);
  EXPECT_EQ(report.take_news().size(), 2u);
  EXPECT_EQ(report.notices(), (std::vector<std::string>{"line 7"}));
}

TEST(Report, RecordsAtTheTimeOfItsStepAndLooksAsSoonAsAnybodyWants) {
  Report report;
  report.begin(5, 100);
  report.record(history::EventKind::notice, {.cause = "x"});
  report.look_by(50);
  report.look_by(70);
  EXPECT_EQ(report.next_ms(), 50);
  const auto events = report.take_events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].time_ms, 5);
  EXPECT_EQ(events[0].user, "agent");
  EXPECT_TRUE(report.take_events().empty());
}

}  // namespace
}  // namespace partita::control
