#include "llm/engine/learned.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace partita::llm {
namespace {

const LearnedEngine kEngine{.spec = {.cost = {.step = 6,
                                              .sequence = 0.05,
                                              .root_sequences = 0.4,
                                              .cached_token = 2e-5,
                                              .prompt_token = 0.03,
                                              .prompt_context = 2e-7},
                                     .step_tokens = 8192,
                                     .sequences = 1024,
                                     .blocks = 60'000},
                            .request = Millis{20},
                            .prompt_token = 0.004};

std::vector<Point> measured(const LearnedEngine& engine, const std::vector<Shape>& shapes,
                            const std::vector<int>& counts) {
  std::vector<Point> points;
  for (const Shape& shape : shapes)
    for (const int n : counts) {
      const auto times = closed_loop(engine, shape, n);
      points.push_back({shape, static_cast<double>(n), times->ttft, times->tpot});
    }
  return points;
}

const std::vector<Shape> kShapes = {{1024, 1024}, {1024, 4096}, {8192, 1024}, {512, 128}};

TEST(LearnedEngine, ConstantsOfAKnownEngineComeBack) {
  const auto learned = learn_engine(measured(kEngine, kShapes, {1, 4, 16, 64}), kEngine.spec);
  ASSERT_TRUE(learned) << to_string(learned.error());
  const StepCost &found = learned->spec.cost, &truth = kEngine.spec.cost;
  for (const auto cost :
       {&StepCost::step, &StepCost::sequence, &StepCost::root_sequences, &StepCost::cached_token,
        &StepCost::prompt_token, &StepCost::prompt_context})
    EXPECT_NEAR(found.*cost / (truth.*cost), 1, 1e-6);
  EXPECT_NEAR(learned->request.value, 20, 1e-6);
  EXPECT_NEAR(learned->prompt_token, 0.004, 1e-9);
}

// One that is crowded from 16 on, and one that stumbles, too, where prompts come: their times
// elsewhere are told.
TEST(LearnedEngine, CrowdsAndPromptsBesideThemAreLearned) {
  for (const double mixed : {0.0, 40.0}) {
    LearnedEngine truth = kEngine;
    truth.spec.cost.root_sequences = 0;
    truth.spec.cost.crowded = 0.3;
    truth.spec.cost.crowded_from = 16;
    truth.spec.cost.mixed = mixed;
    const auto points = measured(truth, kShapes, {1, 4, 16, 64});
    const auto learned = learn_engine(points, truth.spec);
    ASSERT_TRUE(learned);
    EXPECT_TRUE(learned->prompts_told);
    EXPECT_EQ(learned->spec.cost.crowded_from, 16);
    EXPECT_NEAR(learned->spec.cost.crowded, 0.3, 1e-6);
    EXPECT_NEAR(learned->spec.cost.mixed, mixed, 1e-3);
    const auto said = closed_loop(*learned, {2000, 500}, 40);
    const auto is = closed_loop(truth, {2000, 500}, 40);
    EXPECT_NEAR(said->tpot / is->tpot, 1, 1e-4);
    EXPECT_NEAR(said->ttft / is->ttft, 1, 1e-4);
  }
}

// The cache holds 49 or so of the long shape at once: what waits is simulated, not fitted.
TEST(LearnedEngine, SaysWhatWaitsForTheCacheWithoutHavingSeenIt) {
  const auto learned = learn_engine(measured(kEngine, kShapes, {1, 4, 16}), kEngine.spec);
  ASSERT_TRUE(learned);
  const auto truth = closed_loop(kEngine, {8192, 1024}, 256);
  const auto said = closed_loop(*learned, {8192, 1024}, 256);
  ASSERT_TRUE(truth && said);
  EXPECT_GT(truth->ttft, Millis{30'000});  // it does wait
  EXPECT_NEAR(said->ttft / truth->ttft, 1, 0.01);
  EXPECT_NEAR(said->tpot / truth->tpot, 1, 0.01);
}

// What a prompt of 1024 tokens costs, outside of what a step costs anyway.
double prompt_ms(const LearnedEngine& engine) {
  return 1024 * engine.spec.cost.prompt_token + 1024 * 512.0 * engine.spec.cost.prompt_context;
}
double step_ms(const LearnedEngine& engine) {  // of one sequence
  const StepCost& cost = engine.spec.cost;
  return cost.step + cost.sequence + cost.root_sequences + 1024 * cost.cached_token;
}

// As SGLang 0.5.8 was measured on a H100: one concurrency, and times to the first token that are
// waiting, twice as long as the whole answer takes. Of those in time alone prompts are told.
TEST(LearnedEngine, PointsThatAllWaitTellNothingOfPrompts) {
  const auto point = [](int in, int out, double ttft, double tpot) {
    return Point{{in, out}, 16, Millis{ttft}, Millis{tpot}};
  };
  const std::vector<Point> points = {
      point(1024, 128, 6776, 25.48),  point(1024, 256, 14620, 26.84),
      point(1024, 512, 28880, 26.56), point(2048, 128, 16430, 24.66),
      point(2048, 256, 30840, 25.58), point(2048, 512, 88770, 26.33)};
  const auto learned = learn_engine(points, kEngine.spec);
  ASSERT_TRUE(learned);
  EXPECT_FALSE(learned->prompts_told);
  EXPECT_GE(step_ms(*learned), 20);  // nobody saw one sequence alone: it may take as long as all

  const auto alone = learn_engine(measured(kEngine, kShapes, {1, 16}), kEngine.spec);
  ASSERT_TRUE(alone);
  EXPECT_TRUE(alone->prompts_told);
}

// Random engines, measured at a few random places with errors as they are usual: where the points
// are said to tell, prompts are not learned at less than half of what they cost, and a step of one
// sequence never is.
TEST(LearnedEngine, IsNotMuchFasterThanTheTruth) {
  int told = 0, untold = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    const auto spread = [&] { return std::pow(4, 2 * rng.uniform() - 1); };
    LearnedEngine truth = kEngine;
    for (const auto cost : {&StepCost::step, &StepCost::sequence, &StepCost::prompt_token})
      truth.spec.cost.*cost *= spread();
    truth.request = Millis{20 * spread()};
    std::vector<int> counts = {seed % 2 == 0 ? 4 : 1, 8, 16, 32};
    counts.resize(1 + rng.below(4));
    std::vector<Shape> shapes = kShapes;
    shapes.erase(shapes.begin(), shapes.begin() + static_cast<std::ptrdiff_t>(rng.below(3)));
    std::vector<Point> points = measured(truth, shapes, counts);
    for (Point& point : points) {
      point.tpot = point.tpot * (1 + 0.03 * (2 * rng.uniform() - 1));
      point.ttft = point.ttft * (1 + 0.15 * (2 * rng.uniform() - 1));
    }
    if (points.size() < kLeastEnginePoints) continue;
    const auto learned = learn_engine(points, truth.spec);
    ASSERT_TRUE(learned);
    EXPECT_GE(step_ms(*learned), 0.5 * step_ms(truth)) << seed;
    if (learned->prompts_told) {
      EXPECT_GE(prompt_ms(*learned), 0.5 * prompt_ms(truth)) << seed;
    }
    ++(learned->prompts_told ? told : untold);
  }
  EXPECT_GE(told, 10);
}

// Two lengths and three concurrencies: what part of a TTFT is no work of the engine they do not
// tell, so that all of it may be.
TEST(LearnedEngine, APromptCostsAtMostWhatItTookAlone) {
  std::vector<Point> points;
  for (const int tokens : {100, 400})
    for (const int n : {1, 4, 16})
      points.push_back({{tokens, tokens},
                        1.0 * n,
                        Millis{5 + 0.02 * tokens * (1 + n / 9.0)},
                        Millis{5 + 0.3 * n}});
  const auto learned = learn_engine(points, kEngine.spec);
  ASSERT_TRUE(learned);
  EXPECT_TRUE(learned->prompts_told);
  const double slope = (points[3].ttft - points[0].ttft).value / 300;
  EXPECT_GE(prompt_ms(*learned), 0.5 * 1024 * slope);
  EXPECT_LE(prompt_ms(*learned), 2 * 1024 * slope);
}

TEST(LearnedEngine, RefusesWhatItCannotLearnFrom) {
  std::vector<Point> points = measured(kEngine, kShapes, {1, 2});
  EXPECT_FALSE(learn_engine({points.begin(), points.begin() + 5}, kEngine.spec));
  EngineSpec small = kEngine.spec;
  small.blocks = 100;
  EXPECT_FALSE(learn_engine(points, small));
  points.front().concurrency = 1e6;
  EXPECT_FALSE(learn_engine(points, kEngine.spec));
  EXPECT_FALSE(closed_loop(kEngine, {10, 10}, 0));
}

}  // namespace
}  // namespace partita::llm
