#include "llm/points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/source_text.h"

namespace partita::llm {
namespace {

constexpr char kHeader[] =
    "system,backend,version,model,precision,isl,osl,concurrency,tp,pp,attention_dp,moe_tp,moe_ep,"
    "ttft_ms,tpot_ms\n";
constexpr char kRow[] = "h100,vllm,0.18,m,fp8,1024,128,8,2,1,,1,1,120.5,9.25\n";

TEST(Points, ARowSaysItsConfigurationAndItsPoint) {
  const auto all = parse_points("p.csv", std::string(kHeader) + kRow);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1u);
  const Configuration& c = all->front().configuration;
  EXPECT_EQ(to_string(c), "m fp8 on h100, vllm 0.18, tp 2, pp 1, moe tp 1, ep 1");
  EXPECT_FALSE(c.attention_data);
  const Point wanted{{1024, 128}, 8, Millis{120.5}, Millis{9.25}};
  EXPECT_EQ(all->front().points, std::vector{wanted});
}

// One row that is not as it must be, and what is said of it.
struct Refused {
  std::string row, said;
};

TEST(Points, RefusalsNameFileAndLine) {
  const std::string front = "h100,vllm,0.18,", good = front + "m,fp8,1024,128,8,2,1,,1,1,";
  const Refused all[] = {
      {front + ",fp8,1024,128,8,2,1,,1,1,120,9\n", "model is empty"},
      {front + "m,fp8,0,128,8,2,1,,1,1,120,9\n", "isl '0' is outside"},
      {front + "m,fp8,1024.5,128,8,2,1,,1,1,120,9\n", "isl '1024.5' is not a whole number"},
      {front + "m,fp8,1024,,8,2,1,,1,1,120,9\n", "osl '' is empty"},
      {front + "m,fp8,1024,128,0.5,2,1,,1,1,120,9\n", "concurrency '0.5' is outside"},
      {front + "m,fp8,1024,128,8,two,1,,1,1,120,9\n", "tp 'two' is not a whole number"},
      {good + "-1,9\n", "ttft_ms '-1' is outside"},
      {good + "120,nan\n", "tpot_ms 'nan' is not finite"},
      {good + "120\n", "14 cells, the header has 15"}};
  for (const Refused& one : all) {
    const auto read = parse_points("p.csv", kHeader + std::string(kRow) + one.row);
    ASSERT_FALSE(read) << one.row;
    EXPECT_EQ(read.error().context, "p.csv:3") << one.row;
    EXPECT_NE(read.error().message.find(one.said), std::string::npos) << read.error().message;
  }
  const auto missing = parse_points("p.csv", "system,backend\nh100,vllm\n");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().context, "p.csv:1");
}

TEST(Points, PercentilesAreThereWhereTheyWereWrittenDown) {
  std::string header = kHeader, row = kRow;
  header.pop_back();
  row.pop_back();
  header += ",ttft_p99_ms,tpot_p50_ms,itl_ms,itl_p99_ms,weights_mib,kv_token_bytes,rate_rps\n";
  const auto all = parse_points(
      "p.csv", header + row + ",300,9,8.5,40,16384,131072,2.5\n" + row + ",,,,,16384,131072,\n");
  ASSERT_TRUE(all) << to_string(all.error());
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().configuration.weights_mib, 16384);
  Point wanted{{1024, 128}, 8, Millis{120.5}, Millis{9.25}};
  const std::vector<Point> bare{wanted};
  wanted.ttft_at.p99 = Millis{300};
  wanted.tpot_at.p50 = Millis{9};
  wanted.itl = Millis{8.5};
  wanted.itl_at.p99 = Millis{40};
  wanted.rate = Rps{2.5};
  EXPECT_EQ(all->front().points, (std::vector{wanted, bare.front()}));
  EXPECT_EQ(closed_loops(all->front().points), bare);
  EXPECT_EQ(parse_points("again.csv", points_csv(*all)).value(), *all);
  header = kHeader;
  header.pop_back();
  const auto odd =
      parse_points("p.csv", header + ",ttft_p50_ms,ttft_p99_ms\n" + row + ",300,200\n");
  ASSERT_FALSE(odd);
  EXPECT_EQ(to_string(odd.error()), "p.csv:2: ttft percentiles do not ascend");
}

TEST(Points, ThePublishedOnesAreThereAndSurviveWriting) {
  const auto all = parse_points("measured.csv", source_text("data/published/llm/measured.csv"));
  ASSERT_TRUE(all) << to_string(all.error());
  std::size_t points = 0;
  std::set<std::string> systems;
  for (const Measured& one : *all) {
    points += one.points.size();
    systems.insert(one.configuration.system);
  }
  EXPECT_EQ(points, 2468u);
  EXPECT_EQ(systems,
            (std::set<std::string>{"b200_sxm", "b300_sxm", "gb200", "h100_sxm", "h200_sxm"}));
  EXPECT_EQ(all->size(), 249u);
  const auto again = parse_points("again.csv", points_csv(*all));
  ASSERT_TRUE(again) << to_string(again.error());
  EXPECT_EQ(*again, *all);
}

}  // namespace
}  // namespace partita::llm
