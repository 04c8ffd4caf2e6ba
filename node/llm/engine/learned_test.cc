#include "llm/engine/learned.h"

#include <gtest/gtest.h>

#include <cmath>

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
