#include "base/door/trace_context.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/door/http_head.h"

namespace partita::serve {
namespace {

const std::string kTraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(TraceContext, WhatTheStandardAllowsIsKeptAsItIs) {
  // The last one is of a version to come: it says more, which is not for us to judge.
  for (const std::string& parent :
       {kTraceParent, std::string("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
        std::string("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what=ever")}) {
    EXPECT_EQ(trace_context(parent, "a=1,b=2"), (TraceContext{parent, "a=1,b=2"}));
    EXPECT_EQ(trace_id(parent), "0af7651916cd43dd8448eb211c80319c");
  }
}

TEST(TraceContext, AnythingElseCountsAsNotSaidAndSoDoesItsState) {
  std::vector<std::string> wrong = {
      "",
      "00",
      "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
      kTraceParent + "-more",
      kTraceParent + " ",
      "cc" + kTraceParent.substr(2) + "x",
      "cc" + kTraceParent.substr(2) + "-a\rb",
      "cc" + kTraceParent.substr(2) + "-" + std::string(kMaxTraceParent, 'x')};
  for (std::size_t i = 0; i < kTraceParent.size(); ++i) {  // every character matters
    wrong.push_back(kTraceParent);
    wrong.back()[i] = 'g';
    wrong.push_back(kTraceParent.substr(0, i));
  }
  for (const std::string& parent : wrong)
    EXPECT_EQ(trace_context(parent, "a=1"), TraceContext()) << parent;
  EXPECT_EQ(trace_id(""), "");
}

TEST(TraceContext, OfALongStateTheFirstEntriesStay) {
  std::string state;
  for (int i = 0; i < 100; ++i) state += (i == 0 ? "k" : ",k") + std::to_string(i) + "=value";
  const std::string kept = trace_context(kTraceParent, state).state;
  ASSERT_LE(kept.size(), kMaxTraceState);
  EXPECT_GT(kept.size(), kMaxTraceState - 20);
  EXPECT_EQ(state.substr(0, kept.size() + 1), kept + ",");
  EXPECT_EQ(trace_context(kTraceParent, std::string(600, 'x')).state, "");
  EXPECT_EQ(trace_context(kTraceParent, "a=\x01"), (TraceContext{kTraceParent, ""}));
}

TEST(TraceContext, HeadersThatComeTwice) {
  const std::string text = "GET / HTTP/1.1\r\nTraceparent: " + kTraceParent +
                           "\r\ntracestate: a=1\r\nTraceState: b=2\r\n\r\n";
  const auto once = parse_http_head(text);  // refers to it
  ASSERT_TRUE(once);
  EXPECT_EQ(once->trace_parent, kTraceParent);
  EXPECT_EQ(once->trace_state, "a=1,b=2");  // one list in several headers
  for (int times : {2, 3}) {
    std::string head = "GET / HTTP/1.1\r\n";
    for (int i = 0; i < times; ++i) head += "traceparent: " + kTraceParent + "\r\n";
    head += "\r\n";
    const auto twice = parse_http_head(head);
    ASSERT_TRUE(twice);
    EXPECT_EQ(twice->trace_parent, "");  // nobody knows which one holds
  }
}

TEST(TraceContext, NewOnesAreValidAndDiffer) {
  const std::string one = new_trace_parent(), two = new_trace_parent();
  EXPECT_EQ(trace_context(one, "").parent, one);
  EXPECT_NE(trace_id(one), trace_id(two));
}

}  // namespace
}  // namespace partita::serve
