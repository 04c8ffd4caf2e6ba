#include "profile/consistency.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/source_text.h"
#include "profile/testing/published.h"

namespace partita::profile {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A grid of true rows: b x p requests take 2 + 3 b p ms. `lie` spoils throughput (of all processes)
// and latency (ms).
struct Row {
  int batch, processes;
  double throughput, latency_ms;
};
using Lie = std::function<void(Row&)>;

std::vector<Row> rows(const Lie& lie) {
  std::vector<Row> all;
  for (const int batch : {1, 4, 16, 32})
    for (const int processes : {1, 2, 3}) {
      const double ms = 2 + 3.0 * batch * processes;
      all.push_back({batch, processes, 1000 * batch * processes / ms, ms});
      lie(all.back());
    }
  return all;
}

std::string native(const Lie& lie) {
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms\n";
  for (const Row& r : rows(lie))
    text += fmt::format("m,1,{},{},{},{}\n", r.batch, r.processes, r.throughput, r.latency_ms);
  const auto table = parse_native_csv("t.csv", text);
  return table ? "accepted" : to_string(table.error());
}

// The honest file has the throughput of each process and seconds.
std::string parvagpu(const Lie& lie) {
  std::string text = "Mig instance,Batch size,Workload Number,Throughput,Latency\n";
  for (const Row& r : rows(lie))
    text += fmt::format("1,{},{},{},{}\n", r.batch, r.processes, r.throughput / r.processes,
                        r.latency_ms / 1000);
  const auto profile = parse_parvagpu_csv("m.csv", "m", text);
  return profile ? "accepted" : to_string(profile.error());
}

TEST(Contradiction, HonestRowsPassAndSoDoRowsWithinAFactorOfThree) {
  for (const double factor : {1.0, 2.9, 1 / 2.9}) {
    const Lie lie = [factor](Row& r) { r.latency_ms *= factor; };
    EXPECT_EQ(native(lie), "accepted") << factor;
    EXPECT_EQ(parvagpu(lie), "accepted") << factor;
  }
  for (const double factor : {3.1, 1 / 3.1}) {
    const Lie lie = [factor](Row& r) {
      if (r.batch == 4 && r.processes == 2) r.latency_ms *= factor;
    };
    EXPECT_THAT(native(lie), StartsWith("t.csv:6: ")) << factor;
    EXPECT_THAT(parvagpu(lie), StartsWith("m.csv:6: ")) << factor;
  }
}

TEST(Contradiction, NamesRowValuesConsequenceAndWhatWouldAgree) {
  EXPECT_EQ(
      native([](Row& r) { r.latency_ms /= 1000; }),
      "t.csv:2: throughput_rps 200 and latency_ms 0.005 contradict each other: a process with "
      "single requests at 200 requests/s in all take 5 ms a batch, 1000 times that latency; "
      "the latency seems to be in seconds (latency_ms 5 would agree); 12 of the 12 rows that "
      "ran contradict themselves");
}

struct Case {
  Lie lie;
  const char* seems;
  const char* agrees;
};

TEST(Contradiction, NamesTheUnitThatWasMeantInOurOwnCsv) {
  const Case cases[] = {
      {[](Row& r) { r.latency_ms *= 1000; }, "latency seems to be in microseconds",
       "(latency_ms 5 would agree)"},
      {[](Row& r) { r.latency_ms *= 1e6; }, "latency seems to be in nanoseconds",
       "(latency_ms 5 would agree)"},
      {[](Row& r) { r.throughput *= 60; }, "throughput seems to be per minute",
       "(throughput_rps 200 would agree)"},
      {[](Row& r) { r.throughput *= 3600; }, "throughput seems to be per hour",
       "(throughput_rps 200 would agree)"},
      // The first contradiction is that of batches of four by one process: 285.7 in 14 ms.
      {[](Row& r) { r.throughput /= r.batch; }, "throughput seems to count batches, not requests",
       "(throughput_rps 285.7 would agree)"},
      {[](Row& r) { r.latency_ms /= r.batch; }, "or the latency to be that of one request",
       "(throughput_rps 1143 would agree)"},
      {[](Row& r) {
         r.latency_ms /= 1000;
         r.throughput /= r.processes;
       },
       "in seconds and the throughput that of each process, as in ParvaGPU's files",
       "(throughput_rps 200, latency_ms 5 would agree)"},
      {[](Row& r) { r.throughput /= r.processes; },
       "throughput seems to be that of each process, not of all together",
       "(throughput_rps 250 would agree)"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(native(c.lie), HasSubstr(c.seems));
    EXPECT_THAT(native(c.lie), HasSubstr(c.agrees));
  }
}

TEST(Contradiction, NamesTheUnitThatWasMeantInParvaGpusFiles) {
  const Case cases[] = {
      {[](Row& r) { r.latency_ms *= 1000; }, "latency seems to be in milliseconds",
       "(Latency 0.005 would agree)"},
      {[](Row& r) { r.latency_ms *= 1e6; }, "latency seems to be in microseconds",
       "(Latency 0.005 would agree)"},
      {[](Row& r) { r.throughput *= r.processes; },
       "throughput seems to be that of all processes, not of each", "(Throughput 125 would agree)"},
      {[](Row& r) {
         r.throughput *= r.processes;
         r.latency_ms *= 1000;
       },
       "in milliseconds and the throughput that of all processes, as in our own CSV",
       "(Throughput 200, Latency 0.005 would agree)"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(parvagpu(c.lie), HasSubstr(c.seems));
    EXPECT_THAT(parvagpu(c.lie), HasSubstr(c.agrees));
  }
}

// Two processes are within the factor of three; that all rows are off by their processes is not
// chance. A single such row may be.
TEST(Contradiction, ThroughputOfEachProcessShowsWithTwoProcessesToo) {
  const auto of = [](std::size_t count) {
    std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms\nm,1,1,1,200,5\n";
    for (std::size_t i = 0; i < count; ++i)
      text += fmt::format("m,1,{0},2,{1},10\n", 1 << i, 100 << i);
    const auto table = parse_native_csv("t.csv", text);
    return table ? "accepted" : to_string(table.error());
  };
  EXPECT_EQ(of(kOffByProcessesRows - 1), "accepted");
  EXPECT_THAT(of(kOffByProcessesRows), StartsWith("t.csv:3: "));
  EXPECT_THAT(of(kOffByProcessesRows), HasSubstr("(throughput_rps 200 would agree)"));
  EXPECT_THAT(of(kOffByProcessesRows), HasSubstr("so in all 3 rows of this model"));
}

// A mistake in one row of many is not explained by the rest, and the most common one explains all.
TEST(Contradiction, IsExplainedByWhatExplainsTheMostRows) {
  // Four processes with batches of four in a row where the throughput is that of each process:
  // batches counted instead of requests would explain it as well, the rows with other batches do
  // not.
  std::string text = "model,gpcs,batch,processes,throughput_rps,latency_ms\n";
  for (const int batch : {4, 2, 8}) text += fmt::format("m,1,{},4,100,{}\n", batch, 10 * batch);
  const auto table = parse_native_csv("t.csv", text);
  ASSERT_FALSE(table);
  EXPECT_THAT(to_string(table.error()), HasSubstr("that of each process"));
}

// The example of docs/profiles.md, word for word.
TEST(Contradiction, IsSaidAsTheDocumentSays) {
  const std::string text = source_text("docs/profiles.md");
  const auto begin = text.find("```csv\n") + 7, end = text.find("```\n", begin);
  const auto table = parse_native_csv("profiles.csv", text.substr(begin, end - begin));
  ASSERT_FALSE(table);
  EXPECT_THAT(text, HasSubstr("\n    " + to_string(table.error()) + "\n"));
}

TEST(Doubts, AreNoneAboutWhatWasPublishedAndNameTheWorstPoint) {
  EXPECT_TRUE(doubts(published_profiles()).empty());
  const ProfileTable table = {{"m",
                               {"m",
                                {{1, 1, 1, Rps{1000}, Millis{1.9}, {}},  // 0.9 ms: rounding
                                 {1, 8, 1, Rps{100}, Millis{128}, {}},   // 1.6
                                 {1, 16, 1, Rps{100}, Millis{64}, {}},   // 2.5
                                 {1, 32, 1, Rps{100}, Millis{330}, {}}}}}};
  const std::vector<std::string> said = doubts(table);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0],
            "profile of m: latency and throughput differ by more than 1.5 x in 2 of 4 points; the "
            "worst is 1 GPCs, batch 16, 1 processes: 64 ms, where 100 requests/s mean 160 ms");
}

}  // namespace
}  // namespace partita::profile
