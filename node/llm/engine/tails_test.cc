// Percentiles that were measured, held against a simulation by code of this test alone, and what a
// promise becomes by them.
#include "llm/engine/tails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "llm/engine/engines.h"
#include "llm/engine/token_times.h"

namespace partita::llm {
namespace {

using testing::HasSubstr;

const LearnedEngine kKnown{
    .spec = {.cost = {.step = 6, .sequence = 0.05, .cached_token = 2e-5, .prompt_token = 0.03},
             .step_tokens = 2048,
             .sequences = 64,
             .blocks = 60'000},
    .request = Millis{5}};
const std::vector<Shape> kThree = {{256, 64}, {1024, 64}, {1024, 256}};

Configuration on_h100() {
  Configuration c;
  c.system = "H100-80GB-SXM5";
  c.backend = "vllm";
  c.model = "org/m";
  c.tensor = 1;
  c.step_tokens = 2048;
  return c;
}

// Sorted, the value that so many percent are not above.
Millis at_percent(std::vector<Millis> times, double percent) {
  std::ranges::sort(times);
  std::size_t i = 0;
  while (100.0 * static_cast<double>(i + 1) < percent * static_cast<double>(times.size())) ++i;
  return times[i];
}

struct Slower {
  double times = 1, more_ms = 0;
  Millis of(Millis ms) const { return times * ms + Millis{more_ms}; }
};

// As kKnown has it, but for the p99s.
std::vector<Point> points_with(const Slower& ttft, const Slower& tpot) {
  std::vector<Point> points;
  for (const Shape& shape : kThree)
    for (const int n : {1, 4, 16}) {
      const auto all = loop_times(kKnown, shape, n).value();
      const auto mean = closed_loop(kKnown, shape, n).value();
      std::vector<Millis> first, each;
      for (const LoopTimes& one : all) first.push_back(one.ttft), each.push_back(one.tpot);
      Point point{shape, static_cast<double>(n), mean.ttft, mean.tpot};
      point.ttft_at.p99 = ttft.of(at_percent(first, 99));
      point.tpot_at.p99 = tpot.of(at_percent(each, 99));
      points.push_back(point);
    }
  return points;
}

TEST(Tails, OfWhatIsAsSimulatedAddNothing) {
  const Tails tails = tails_of(kKnown, points_with({}, {}));
  ASSERT_TRUE(tails.errors);
  EXPECT_EQ(tails.errors->percentiles, 9);
  EXPECT_NEAR(tails.errors->ttft_error + tails.errors->tpot_error, 0, 1e-12);
  EXPECT_NEAR(tails.ttft.of(100) + tails.tpot.of(10), 110, 1e-9);
  EXPECT_FALSE(tails_of(kKnown, {{{256, 64}, 4, Millis{9}, Millis{7}}}).errors);
}

TEST(Tails, FasterOnesMakeNoPromiseLooser) {
  const Tails tails = tails_of(kKnown, points_with({0.5, 0}, {0.5, 0}));
  EXPECT_EQ(tails.ttft, profile::TailMargin{});
  EXPECT_EQ(tails.tpot, profile::TailMargin{});
  EXPECT_NEAR(tails.errors->ttft_error, 1, 1e-9);
  EXPECT_EQ(tails.errors->ttft_lowest, 0);
}

// At every measured point at least what was measured, by the least of both ways to say it.
TEST(Tails, SayAtNoMeasuredPointLess) {
  Rng rng(4);
  for (int round = 0; round < 20; ++round) {
    const Slower ttft{1 + rng.uniform(), 50 * rng.uniform()},
        tpot{1 + rng.uniform(), rng.uniform()};
    const std::vector<Point> points = points_with(ttft, tpot);
    const Tails tails = tails_of(kKnown, points);
    for (const Point& point : points) {
      const auto all = loop_times(kKnown, point.shape, static_cast<int>(point.concurrency)).value();
      std::vector<Millis> first, each;
      for (const LoopTimes& one : all) first.push_back(one.ttft), each.push_back(one.tpot);
      EXPECT_GE(tails.ttft.of(at_percent(first, 99).value), point.ttft_at.p99->value * (1 - 1e-12));
      EXPECT_GE(tails.tpot.of(at_percent(each, 99).value), point.tpot_at.p99->value * (1 - 1e-12));
    }
  }
  const Tails more = tails_of(kKnown, points_with({1, 40}, {1, 0}));
  EXPECT_NEAR(more.ttft.of(10'000), 10'040, 1e-6);  // not so many times as much
}

// An open loop is held against the same arrivals, and teaches the engine nothing.
TEST(Tails, OpenLoopsAreHeldAgainstOpenLoops) {
  std::vector<Point> points = points_with({}, {});
  const Rps rate{4};
  std::vector<Millis> first;
  const auto times = open_times(kKnown, {1024, 64}, rate);
  ASSERT_TRUE(times);
  for (const LoopTimes& one : *times) first.push_back(one.ttft);
  Point open{{1024, 64}, 2.5, Millis{1e6}, Millis{1e6}};
  open.rate = rate;
  open.ttft_at.p99 = 3 * at_percent(first, 99);
  points.push_back(open);
  const Tails tails = tails_of(kKnown, points);
  EXPECT_NEAR(tails.ttft.times, 3, 1e-9);
  const auto learned = engine_of({on_h100(), points});
  ASSERT_TRUE(learned);
  EXPECT_NEAR(learned->spec.cost.step, 6, 0.1);
  EXPECT_NEAR(learned->ttft_tail.times, 3, 0.1);
}

plan::Terms promised(double ttft, double tpot) {
  plan::Terms terms;
  terms.name = "chat";
  terms.rate = Rps{5};
  terms.percentile = 99;
  terms.tokens = plan::TokenTerms{
      .ttft = Millis{ttft}, .tpot = Millis{tpot}, .lengths = plan::TokenPair{512, 128}};
  return terms;
}

TEST(Tails, MorePercentilesNeverMakeMoreRequestsBeInTime) {
  Measured measured{on_h100(), points_with({1.5, 0}, {1.3, 0})};
  Measured bare = measured;
  for (Point& point : bare.points) point.ttft_at = point.tpot_at = {};
  const auto with = engine_of(measured), without = engine_of(bare);
  ASSERT_TRUE(with && without);
  EXPECT_EQ(with->spec, without->spec);
  for (const double rate : {1.0, 5.0, 9.0})
    for (const double ttft : {40.0, 60.0, 120.0}) {
      const plan::Terms terms = promised(ttft, 9);
      const ReplicaTimes a = replica_times(terms, *with, {.rate = Rps{rate}});
      const ReplicaTimes b = replica_times(terms, *without, {.rate = Rps{rate}});
      EXPECT_GE(a.late, b.late);
      EXPECT_NEAR(a.ttft / b.ttft, 1.5, 0.05);
    }
}

// ---- whether a model fits where it is said to have been measured

const OfGpu kGpu{"H100-80GB-SXM5", 132, 81'559.0, {{"1g.10gb", 9'856.0}, {"3g.40gb", 40'448.0}}};

EngineTable on_slice(const std::string& model, const std::string& slice,
                     std::optional<int> weights_mib, std::optional<int> kv_token_bytes = {}) {
  Configuration c = on_h100();
  c.model = model;
  c.profile = slice;
  c.weights_mib = weights_mib;
  c.kv_token_bytes = kv_token_bytes;
  return engines_of({{c, points_with({}, {})}}, kGpu, {model}).value();
}

TEST(EnginesFit, AModelThatIsTooLargeForItsSliceIsLeftOut) {
  const EngineTable told = on_slice("m", "1g.10gb", 140'000);
  EXPECT_TRUE(told.engines.empty());
  ASSERT_EQ(told.left_out.count("m"), 1U);
  EXPECT_THAT(told.left_out.find("m")->second, HasSubstr("140000 MiB"));
  for (const char* name : {"org/Llama-3.1-70B", "org/llama-70b-instruct", "70B"}) {
    const EngineTable named = on_slice(name, "1g.10gb", {});
    EXPECT_TRUE(named.engines.empty()) << name;
    EXPECT_EQ(named.left_out.count(name), 1U);
    EXPECT_EQ(on_slice(name, "1g.10gb", 9'000).engines.size(), 1U);  // what is told counts
  }
  for (const char* name : {"org/m", "org/Llama-3.1-8B", "7Bloom", "v1.5B2", "m-70Bx"})
    EXPECT_EQ(on_slice(name, "1g.10gb", {}).engines.size(), 1U) << name;
  EXPECT_EQ(on_slice("org/m-70B", "3g.40gb", {}).engines.size(), 1U);  // with 4 bits a weight
}

TEST(EnginesFit, WhatNobodySaysIsSaid) {
  EXPECT_EQ(on_slice("m", "1g.10gb", {}).unsaid.count("m"), 1U);
  EXPECT_EQ(on_slice("m", "1g.10gb", 5'000, 1'000).unsaid.count("m"), 0U);
  EXPECT_EQ(on_slice("m", "", {}).unsaid.count("m"), 0U);
}

TEST(EnginesFit, TheCacheHasNoMoreThanWeightsLeave) {
  // 856 MiB left, 128 KiB a token.
  const EngineTable table = on_slice("m", "1g.10gb", 9'000, 1 << 17);
  ASSERT_EQ(table.engines.size(), 1U);
  EXPECT_EQ(table.engines.at("m").front().spec.blocks, 856 * 8 / 16);
  EXPECT_EQ(on_slice("m", "1g.10gb", 9'800, 1 << 17).left_out.count("m"), 1U);  // 448 tokens
}

}  // namespace
}  // namespace partita::llm
