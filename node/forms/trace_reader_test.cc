#include <gtest/gtest.h>

#include "forms/traffic_forms.h"

namespace partita::forms {
namespace {

using Numbers = std::vector<double>;

plan::TrafficTrace trace_of(const char* text, const TraceRows& rows = {"chat", false}) {
  const auto trace = parse_traffic_trace("t.csv", text, rows);
  EXPECT_TRUE(trace) << to_string(trace.error());
  return trace ? *trace : plan::TrafficTrace{};
}

std::string trace_fault(const char* text, const TraceRows& rows = {"chat", false}) {
  const auto trace = parse_traffic_trace("t.csv", text, rows);
  return trace ? "accepted" : to_string(trace.error());
}

TEST(TrafficTrace, TimesInSecondsUnderAnyOfTheirNames) {
  EXPECT_EQ(trace_of("at_s,prompt_tokens\n0.5,4808\n\n0.5,10\n3e0,1\n").times_s,
            (Numbers{0.5, 0.5, 3}));
  EXPECT_EQ(trace_of("\xEF\xBB\xBFtokens,time_s\r\n1,2\r\n1,4\r\n").times_s, (Numbers{2, 4}));
  EXPECT_EQ(trace_of("Timestamp\n2\n4").times_s, (Numbers{2, 4}));
}

// Over the end of a leap day, and of a year.
TEST(TrafficTrace, DatesCountFromTheFirst) {
  EXPECT_EQ(trace_of("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03.5,7\n2023-11-16T18:18:00Z,8\n"
                     "2023-11-17 00:00:00.25+00:00,9\n")
                .times_s,
            (Numbers{0, 56.5, 20576.75}));
  EXPECT_EQ(trace_of("time\n2024-02-28 23:59:59\n2024-03-01 00:00:00\n").times_s,
            (Numbers{0, 86401}));
  EXPECT_EQ(trace_of("time\n2023-12-31 00:00:00\n2024-12-31 00:00:00\n").times_s,
            (Numbers{0, 366 * 86400.0}));
}

TEST(TrafficTrace, AServiceTakesItsRowsOfTheTimes) {
  constexpr char kText[] = "time_s,service\n0,other\n1,chat\n2,other\n4,chat\n";
  EXPECT_EQ(trace_of(kText).times_s, (Numbers{1, 4}));
  EXPECT_EQ(trace_of(kText, {"other", true}).times_s, (Numbers{0, 2}));
  EXPECT_EQ(trace_fault(kText, {"mail", false}),
            "t.csv:1: no row is named 'mail'; a trace is {file: FILE, row: NAME} when its row has "
            "another name than its service");
  EXPECT_EQ(trace_of("time_s,service\n0,x\n1,x\n").times_s, (Numbers{0, 1}));  // the only one
  EXPECT_NE(trace_fault("time_s\n0\n1\n", {"chat", true}), "accepted");
}

TEST(TrafficTrace, CountsPerMinuteAsFunctionTracesHaveThem) {
  constexpr char kText[] =
      "HashOwner,HashApp,HashFunction,Trigger,1,2,3\n"
      "o,a1,f1,http,0,3,1\n"
      "o,a2,chat,timer,7,0,0\n";
  EXPECT_EQ(trace_of(kText).per_minute, (Numbers{7, 0, 0}));
  EXPECT_EQ(trace_of(kText, {"f1", true}).per_minute, (Numbers{0, 3, 1}));
  EXPECT_NE(trace_fault(kText, {"f3", false}), "accepted");
  EXPECT_NE(trace_fault(kText, {"7", true}), "accepted");         // a figure is no name
  EXPECT_EQ(trace_of("2,1\n5,6\n").per_minute, (Numbers{6, 5}));  // one row, columns in any order
  EXPECT_NE(trace_fault("2,1\n5,6\n", {"chat", true}), "accepted");
}

TEST(TrafficTrace, ADayHasAThousandColumns) {
  std::string header = "function", row = "chat";
  for (int minute = 1; minute <= 1440; ++minute) {
    header += "," + std::to_string(minute);
    row += "," + std::to_string(minute % 60);
  }
  const plan::TrafficTrace trace = trace_of((header + "\n" + row + "\n").c_str());
  ASSERT_EQ(trace.per_minute.size(), 1440u);
  EXPECT_EQ(trace.per_minute[61], 2);
  EXPECT_DOUBLE_EQ(trace.mean().value, 29.5 / 60);
}

TEST(TrafficTrace, RefusesWithTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "t.csv:1: the file is empty"},
      {"a,b\n1,2\n",
       "t.csv:1: a trace has a column of times, at_s, time_s or timestamp, or a column for each "
       "minute: 1, 2, 3, ..."},
      {"at_s\n1\n", "t.csv:1: a trace needs at least two times that differ"},
      {"at_s\n1\n1\n", "t.csv:1: a trace needs at least two times that differ"},
      {"at_s\n1\n\n0.5\n", "t.csv:4: '0.5' is before the row above it; times must ascend"},
      {"at_s\n-1\n2\n",
       "t.csv:2: '-1' is no time: seconds from 0 to 1e+09, or dates such as 2023-11-16 "
       "18:17:03.98"},
      {"at_s\n1\n2023-11-16 18:17:03\n",
       "t.csv:3: '2023-11-16 18:17:03' is no time: seconds from 0 to 1e+09, or dates such as "
       "2023-11-16 18:17:03.98"},
      {"at_s\n1,2\n", "t.csv:2: 2 cells, the header has 1"},
      {"at_s,\"x\n1,2\n", "t.csv:1: unterminated quote"},
      {"f,1,2\n", "t.csv:1: there is no row under the header"},
      {"f,1,2\nx,3,y\n", "t.csv:2: minute 2: 'y' is no number of requests"},
      {"f,1,2\nx,-3,1\n", "t.csv:2: minute 1: '-3' is no number of requests"},
      {"f,1,2\nx,0,0\n", "t.csv:2: the row has no request in any minute"},
      {"f,1,2\nx,3\n", "t.csv:2: 2 cells, the header has 3"},
  };
  for (const auto& [text, refusal] : cases) EXPECT_EQ(trace_fault(text), refusal);
  for (const char* date : {"2023-13-01 00:00:00", "2023-00-01 00:00:00", "2023-01-32 00:00:00",
                           "2023-01-01 24:00:00", "2023-01-01 00:60:00", "2023-01-01 00:00",
                           "2023-01-01 00:00:00.x", "2023-01-01_00:00:00", "2023-01-01 00:00:00+1"})
    EXPECT_NE(trace_fault(("time\n2022-01-01 00:00:00\n" + std::string(date) + "\n").c_str()),
              "accepted")
        << date;
}

}  // namespace
}  // namespace partita::forms
