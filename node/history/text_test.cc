#include "history/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace partita::history {
namespace {

std::string clock_text(std::int64_t time_ms) { return "t" + std::to_string(time_ms); }

constexpr const char* kPlan = R"({"kind": "ServingPlan", "gpus": [{}, {}], "services": [
  {"name": "chat", "rate_rps": 260, "planned_rps": 300.5, "slo_ms": 100,
   "predicted_latency_ms": 93.25}]})";
constexpr const char* kChange =
    R"({"kind": "Change", "keep": [{}, {}], "create": [{}], "destroy": [],
  "move": [], "predicted_s": 2.5, "explanation": ["a 1g.10gb is free on gpu 1"],
  "affected_services": [{"name": "chat", "unavailable_s": 0, "below_s": 0.5, "why": "no room"},
                        {"name": "calm", "unavailable_s": 0, "below_s": 0}]})";
constexpr const char* kChoice = R"({"alternatives": [{"text": "3 GPUs: dearer"}, "stay: too slow"],
  "forecast": ["chat: 260 req/s, between 240 and 281"]})";

std::vector<Event> story() {
  return {{.id = 9,
           .time_ms = 4100,
           .kind = EventKind::applied,
           .change = 3,
           .user = "agent",
           .outcome = Outcome::succeeded,
           .detail = "as planned"},
          {.id = 5,
           .time_ms = 1000,
           .kind = EventKind::proposed,
           .change = 3,
           .user = "agent",
           .cause = "rate of chat rose from 120 to 260 req/s",
           .documents =
               {{"plan", kPlan}, {"change", kChange}, {"choice", kChoice}, {"noise", "no JSON"}}},
          {.id = 6, .time_ms = 2000, .kind = EventKind::approved, .change = 3, .user = "token ops"},
          {.id = 7, .time_ms = 2100, .kind = EventKind::applying, .change = 3, .user = "agent"},
          {.id = 8,
           .time_ms = 3000,
           .kind = EventKind::step,
           .change = 3,
           .user = "agent",
           .subject = "gpu 1",
           .outcome = Outcome::failed,
           .detail = "create 1g.10gb at 0"}};
}

TEST(Text, AStoryTellsWhyWhatElseWhoAndHowItEnded) {
  const std::string text = change_story(story(),
                                        {{.time_ms = 9000,
                                          .kind = EventKind::repair,
                                          .user = "agent",
                                          .detail = "an instance was gone"}},
                                        clock_text);
  std::size_t at = 0;
  for (const char* part : {"change 3: done\n",
                           "why       rate of chat rose from 120 to 260 req/s",
                           "asked by  agent, t1000",
                           "approved  by token ops, t2000",
                           "took      2.0 s",
                           "outcome   as planned",
                           "2 instances kept, 1 created, 0 destroyed",
                           "chat: 0.50 s below its minimum, 0.00 s without any capacity; no room",
                           "a 1g.10gb is free on gpu 1",
                           "forecast\n  chat: 260 req/s, between 240 and 281",
                           "what else was considered\n  3 GPUs: dearer\n  stay: too slow",
                           "plan on 2 GPUs",
                           "what happened",
                           "t1000",
                           "t2000",
                           "t2100",
                           "step gpu 1 (failed): create 1g.10gb at 0",
                           "change 3 applied: as planned",
                           "what came after",
                           "t9000",
                           "drift: an instance was gone"}) {
    const auto found = text.find(part, at);
    ASSERT_NE(found, text.npos) << part << "\n" << text;
    at = found;
  }
  EXPECT_EQ(text.find("calm"), text.npos);  // nothing happens to it
  EXPECT_NE(text.find("300.5"), text.npos);
  EXPECT_EQ(change_story({}, {}, clock_text), "");
}

TEST(Text, AStoryOfAPartSaysWhatWasAskedFor) {
  const std::string plan = R"({"gpus": [{}], "services": [
    {"name": "chat", "rate_rps": 320, "wanted_rps": 1000, "planned_rps": 333, "slo_ms": 100},
    {"name": "calm", "rate_rps": 7, "planned_rps": 9, "slo_ms": 100}]})";
  const std::string text = change_story(
      {{.id = 1, .kind = EventKind::proposed, .change = 4, .documents = {{"plan", plan}}}}, {},
      clock_text);
  std::istringstream lines(text);
  std::map<std::string, std::string> rows;  // with single blanks
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string all;
    for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
    rows[all.substr(0, all.find(' '))] = all;
  }
  EXPECT_EQ(rows["service"], "service asked req/s planned for carries SLO ms predicted ms");
  EXPECT_EQ(rows["chat"], "chat 1000 320 (32 %) 333 100 0");
  EXPECT_EQ(rows["calm"], "calm 7 7 9 100 0");
}

TEST(Text, AStorySaysHowFarItCame) {
  const auto state = [](EventKind kind, Outcome outcome = Outcome::none) {
    return change_story({{.id = 1, .kind = kind, .change = 4, .user = "x", .outcome = outcome}}, {},
                        clock_text);
  };
  EXPECT_TRUE(state(EventKind::proposed).starts_with("change 4: proposed, not yet decided\n"));
  EXPECT_TRUE(state(EventKind::approved).starts_with("change 4: approved, not yet begun\n"));
  EXPECT_TRUE(state(EventKind::rejected).starts_with("change 4: rejected\n"));
  EXPECT_TRUE(state(EventKind::applying).starts_with("change 4: begun, and its end was not kept"));
  EXPECT_TRUE(state(EventKind::applied, Outcome::failed).starts_with("change 4: failed\n"));
  EXPECT_TRUE(
      state(EventKind::applied, Outcome::interrupted).starts_with("change 4: interrupted\n"));
}

TEST(Text, EventsAreALineEach) {
  const std::string text = events_text({{.time_ms = 7,
                                         .kind = EventKind::applied,
                                         .change = 2,
                                         .user = "root",
                                         .outcome = Outcome::failed,
                                         .detail = "no room\nand more"},
                                        {.time_ms = 5,
                                         .kind = EventKind::health,
                                         .user = "agent",
                                         .cause = "XID 79",
                                         .subject = "GPU-1"}},
                                       clock_text);
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_NE(text.find("change 2 failed: no room\n"), text.npos) << text;
  EXPECT_NE(text.find("health GPU-1: XID 79\n"), text.npos) << text;
  EXPECT_EQ(events_text({}, clock_text), "nothing\n");
}

}  // namespace
}  // namespace partita::history
