#include "profile/readers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace partita::profile {
namespace {

constexpr const char* kHeader = "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib\n";
constexpr const char* kParvaHeader = "Mig instance,Batch size,Workload Number,Throughput,Latency\n";

std::string native_error(const std::string& text) {
  const Result<ProfileTable> table = parse_native_csv("t.csv", text);
  return table ? "accepted" : to_string(table.error());
}

TEST(NativeCsv, ReadsPointsSortedAndKeepsRowsThatDidNotRunApart) {
  const Result<ProfileTable> table =
      parse_native_csv("t.csv", std::string(kHeader) +
                                    "b,2,4,1,100.5,39.8,\na,1,8,2,20,800,512.5\n"
                                    "a,1,4,2,10,800,\na,1,16,2,0,0,\n");
  ASSERT_TRUE(table) << to_string(table.error());
  const ProfileTable expected = {
      {"a",
       {"a",
        {{1, 4, 2, Rps{10}, Millis{800}, {}}, {1, 8, 2, Rps{20}, Millis{800}, Mib{512.5}}},
        {{1, 16, 2}}}},
      {"b", {"b", {{2, 4, 1, Rps{100.5}, Millis{39.8}, {}}}}}};
  EXPECT_EQ(*table, expected);
}

TEST(NativeCsv, AcceptsByteOrderMarkCrlfAnyColumnOrderQuotesAndNoMemory) {
  const Result<ProfileTable> table =
      parse_native_csv("t.csv",
                       "\xEF\xBB\xBFlatency_ms, throughput_rps ,processes,batch,gpcs,model\r\n\r\n"
                       "5, 200 ,1,1,1,\"a, \"\"b\"\"\"\r\n");
  ASSERT_TRUE(table) << to_string(table.error());
  const ProfileTable expected = {{"a, \"b\"", {"a, \"b\"", {{1, 1, 1, Rps{200}, Millis{5}, {}}}}}};
  EXPECT_EQ(*table, expected);
}

struct BadCase {
  const char* text;    // below kHeader when it starts with a row
  const char* reason;  // exact message
};

TEST(NativeCsv, RefusesBadRowsWithLineAndReason) {
  const BadCase cases[] = {
      {"a,1,1,1,-5,5,\n", "t.csv:2: throughput_rps '-5' is outside 0..1000000000000"},
      {"a,1,1,1,nan,5,\n", "t.csv:2: throughput_rps 'nan' is not finite"},
      {"a,1,1,1,5,inf,\n", "t.csv:2: latency_ms 'inf' is not finite"},
      {"a,1,1,1,1e999,5,\n", "t.csv:2: throughput_rps '1e999' is out of range"},
      {"a,1,1,1,1e13,5,\n", "t.csv:2: throughput_rps '1e13' is outside 0..1000000000000"},
      {"a,1,1,1,5x,5,\n", "t.csv:2: throughput_rps '5x' is not a number"},
      {"a,1,1,1,,5,\n", "t.csv:2: throughput_rps '' is empty"},
      {"a,1,1,1,5,5,-1\n", "t.csv:2: memory_mib '-1' is outside 0..1000000000000"},
      {"a,1,1.5,1,5,5,\n", "t.csv:2: batch '1.5' is not a whole number"},
      {"a,0,1,1,5,5,\n", "t.csv:2: gpcs '0' is outside 1..16"},
      {"a,1,65537,1,5,5,\n", "t.csv:2: batch '65537' is outside 1..65536"},
      {"a,1,1,65,5,5,\n", "t.csv:2: processes '65' is outside 1..64"},
      {"a,1,1,99999999999,5,5,\n", "t.csv:2: processes '99999999999' is out of range"},
      {"a,1,1,1,0,5,\n",
       "t.csv:2: throughput and latency must both be positive, or both 0 (did not run)"},
      {"a,1,1,1,5,5,\n\na,1,1,1,6,6,\n", "t.csv:4: 1 GPCs, batch 1, 1 processes appear twice"},
      {"a,1,1,1,5,5,\na,1,1,1,0,0,\n", "t.csv:3: 1 GPCs, batch 1, 1 processes appear twice"},
      {",1,1,1,5,5,\n", "t.csv:2: model is empty"},
      {"a,1,1,1,5,5\n", "t.csv:2: 6 cells, the header has 7"},
      {"\"a,1,1,1,5,5,\n", "t.csv:2: unterminated quote"},
      {"a\"b,1,1,1,5,5,\n", "t.csv:2: quote inside a cell"},
      {"\"a\"b,1,1,1,5,5,\n", "t.csv:2: text after a closing quote"},
      {"\xFF,1,1,1,5,5,\n", "t.csv:2: invalid UTF-8"},
      {"\xC0\xAF,1,1,1,5,5,\n", "t.csv:2: invalid UTF-8"},
      {"\xED\xA0\x80,1,1,1,5,5,\n", "t.csv:2: invalid UTF-8"},
      {"a\x01,1,1,1,5,5,\n", "t.csv:2: control byte: not a text file"},
      {"a,1,1,1,5,200,\na,1,2,1,5,4,\n",
       "t.csv:3: throughput_rps 5 and latency_ms 4 contradict each other: a process with batches "
       "of "
       "2 at 5 requests/s in all take 400 ms a batch, 100 times that latency; one of the two is "
       "wrong; 1 of the 2 rows that ran contradict themselves"},
      {"a,1,1,1,0,0,\n", "t.csv:1: no row ran: every row is 0,0"},
      {"", "t.csv:1: no rows below the header"},
  };
  for (const BadCase& c : cases) EXPECT_EQ(native_error(kHeader + std::string(c.text)), c.reason);
  EXPECT_EQ(native_error(std::string(kHeader) + std::string("a\0,1,1,1,5,5,\n", 14)),
            "t.csv:2: control byte: not a text file");
}

TEST(NativeCsv, KeepsWhatWasPredictedApartFromWhatWasMeasured) {
  const std::string text =
      "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib,source\n"
      "a,1,1,1,10,100,,measured\na,1,2,1,10,200,,predicted\n"
      "a,1,4,1,10,400,,predicted:A100-80GB\na,2,1,1,10,100,,\n"
      "a,2,8,1,0,0,,predicted:A100-80GB\na,2,4,1,0,0,,\n";
  const Result<ProfileTable> table = parse_native_csv("t.csv", text);
  ASSERT_TRUE(table) << to_string(table.error());
  const WorkloadProfile& a = table->at("a");
  ASSERT_EQ(a.points.size(), 4u);
  EXPECT_EQ(a.points[0].learned_on, std::nullopt);
  EXPECT_EQ(a.points[1].learned_on, "");
  EXPECT_EQ(a.points[2].learned_on, "A100-80GB");
  EXPECT_FALSE(a.points[3].predicted());
  EXPECT_EQ(a.no_runs, (std::vector<NoRun>{{2, 4, 1}}));  // a law's doubts are no knowledge
  EXPECT_EQ(*parse_native_csv("again.csv", native_csv(*table)), *table);
  const std::string head = text.substr(0, text.find('\n') + 1);
  for (const char* source : {"guessed", "predicted:", "predicted :x", "Predicted"})
    EXPECT_EQ(native_error(head + "a,1,1,1,10,100,," + source + "\n"),
              "t.csv:2: source is none of: measured, predicted, predicted:GPU (the GPU model on "
              "which the law was learned)");
}

TEST(NativeCsv, AModelHasItsShapes) {
  const std::string header =
      "model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mib,shape\n";
  const std::string text =
      header + "m,1,1,1,100,10,,x=1x3 y=2\nm,1,2,1,150,13.3,,x=1x3 y=2\nn,1,1,1,100,10,,\n";
  const auto table = parse_native_csv("p.csv", text);
  ASSERT_TRUE(table) << to_string(table.error());
  EXPECT_EQ(table->at("m").shape, "x=1x3 y=2");
  EXPECT_EQ(table->at("n").shape, "");
  EXPECT_EQ(native_csv(*table), text);
  const std::string several =
      header + "m,1,1,1,60,17,,x=1x9\nm,1,1,1,100,10,,x=1x3\nm,1,2,1,150,13.3,,x=1x3\n";
  const auto both = parse_native_csv("p.csv", several);
  ASSERT_TRUE(both) << to_string(both.error());
  ASSERT_EQ(both->size(), 2U);
  EXPECT_EQ(both->at("m~3").points.size(), 2U);
  EXPECT_EQ(both->at("m~9").model, "m");
  EXPECT_EQ(both->at("m~9").shape, "x=1x9");
  EXPECT_EQ(*parse_native_csv("p.csv", native_csv(*both)), *both);
  for (const char* other : {"x=3", ""}) {  // as long, and of no length
    const auto mixed = parse_native_csv(
        "p.csv", header + "m,1,1,1,100,10,,x=1x3\nm,1,2,1,150,13.3,," + other + "\n");
    ASSERT_FALSE(mixed);
    EXPECT_TRUE(to_string(mixed.error()).starts_with("p.csv:3: model 'm' has points of the shapes"))
        << to_string(mixed.error());
  }
}

TEST(NativeCsv, RefusesBadHeaders) {
  EXPECT_EQ(native_error(""), "t.csv:1: empty file");
  EXPECT_EQ(native_error("\n\r\n"), "t.csv:1: empty file");
  EXPECT_EQ(native_error("model,gpcs\na,1\n"), "t.csv:1: column 'batch' is missing");
  EXPECT_EQ(native_error("model,model\na,1\n"), "t.csv:1: column 'model' appears twice");
  EXPECT_EQ(native_error("model,gpcs,batch,processes,throughput_rps,latency_ms,memory_mb\n"
                         "a,1,1,1,5,5,1\n"),
            "t.csv:1: unknown column 'memory_mb'");
}

TEST(ParvaGpuCsv, ThroughputIsPerProcessAndLatencyInSeconds) {
  const Result<WorkloadProfile> profile = parse_parvagpu_csv("bert.csv", "bert",
                                                             std::string(kParvaHeader) +
                                                                 "4,8,3,603.25,0.013\n1,1,5,0,0\n"
                                                                 "4,8,1,785.75,0.010\n");
  ASSERT_TRUE(profile) << to_string(profile.error());
  ASSERT_EQ(profile->points.size(), 2u);
  EXPECT_EQ(profile->points[1].throughput, Rps{3 * 603.25});
  EXPECT_DOUBLE_EQ(profile->points[1].latency.value, 13);
  EXPECT_EQ(profile->points[0].processes, 1);
  EXPECT_EQ(profile->no_runs, (std::vector<NoRun>{{1, 1, 5}}));
  const Result<WorkloadProfile> bad =
      parse_parvagpu_csv("bert.csv", "bert", std::string(kParvaHeader) + "4,8,3,603.25,-1\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(to_string(bad.error()), "bert.csv:2: Latency '-1' is outside 0..1000000000");
}

RC_GTEST_PROP(NativeCsv, WhatIsPrintedIsReadBack, ()) {
  const auto positive = [] { return std::ldexp(1.0 + *rc::gen::inRange(0, 1 << 30), -16); };
  const auto names = *rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(
      rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab ,\"\t.-")))));
  ProfileTable table;
  for (const std::string& name : names) {
    if (name.find('\t') != std::string::npos) continue;
    WorkloadProfile& profile = table[name];
    profile = {name, {}};
    const int count = *rc::gen::inRange(1, 8);
    for (int i = 1; i <= count; ++i) {
      const double throughput = positive();
      const Millis latency{1000.0 * (1 + i) / throughput * (1 + *rc::gen::inRange(0, 9) / 10.0)};
      ProfilePoint p{1 + i / 4, 1 + i, 1, Rps{throughput}, latency, {}};
      if (i % 2 == 0) p.memory = Mib{positive()};
      if (i % 3 == 0) p.learned_on = i % 2 == 0 ? "" : "A100, or so";
      profile.points.push_back(p);
      if (i % 2 == 1) profile.no_runs.push_back({1 + i / 4, 1 + i, 2});
    }
  }
  RC_PRE(!table.empty());
  const Result<ProfileTable> again = parse_native_csv("t.csv", native_csv(table));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == table);
}

}  // namespace
}  // namespace partita::profile
