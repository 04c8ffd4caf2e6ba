#include "sim/arrivals.h"

#include <gtest/gtest.h>

#include <vector>

namespace partita::sim {
namespace {

TEST(Trace, GroupsByServiceInOrder) {
  const auto traces = parse_trace("t.csv", "time_s,service\n0,b\n0.5,a\n0.5,b\n3e0,a\n");
  ASSERT_TRUE(traces) << to_string(traces.error());
  ASSERT_EQ(traces->size(), 2u);
  EXPECT_EQ((*traces)[0].service, "a");
  EXPECT_EQ((*traces)[0].times_s, (std::vector<double>{0.5, 3}));
  EXPECT_EQ((*traces)[1].service, "b");
  EXPECT_EQ((*traces)[1].times_s, (std::vector<double>{0, 0.5}));
}

TEST(Trace, RefusalsNameTheLine) {
  const auto context = [](const char* text) {
    const auto traces = parse_trace("t.csv", text);
    return traces ? std::string("accepted") : traces.error().context;
  };
  EXPECT_EQ(context(""), "t.csv:1");
  EXPECT_EQ(context("time_s,name\n1,a\n"), "t.csv:1");
  EXPECT_EQ(context("time_s,service\n1,a\n2,a\n1.5,a\n"), "t.csv:4");
  EXPECT_EQ(context("time_s,service\n1,a\n\n0.5,b\n"), "t.csv:4");
  EXPECT_EQ(context("time_s,service\n-1,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\nnan,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1e400,a\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1,\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1\n"), "t.csv:2");
  EXPECT_EQ(context("time_s,service\n1,a\n1s,a\n"), "t.csv:3");
}

}  // namespace
}  // namespace partita::sim
