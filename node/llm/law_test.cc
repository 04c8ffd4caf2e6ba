#include "llm/law.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace partita::llm {
namespace {

// An engine that is exactly what the law says, with constants of its own.
struct Engine {
  double step = 6, sequence = 0.08, cache_read = 1.5e-5, prefill = 0.04, concave = 0.3;
  double cache = 1e12;  // tokens

  Point measured(const Shape& shape, double n) const {
    const double in = shape.tokens_in, out = shape.tokens_out;
    const double r = std::min(n, cache / (in + out / 2));
    const double tpot = step + sequence * r + cache_read * r * (in + out / 2) +
                        prefill * r * in / out + concave * std::sqrt(r);
    const double first = 30 + 0.05 * in + 0.001 * in * r + 0.5 * r + 0.02 * r * in / out;
    return {shape, n, Millis{first + out * tpot * (n / r - 1)}, Millis{tpot}};
  }
  std::vector<Point> measured(const std::vector<Shape>& shapes,
                              const std::vector<double>& counts) const {
    std::vector<Point> points;
    for (const Shape& shape : shapes)
      for (const double n : counts) points.push_back(measured(shape, n));
    return points;
  }
};

const std::vector<Shape> kShapes = {{1024, 1024}, {1024, 4096}, {8192, 1024}};
const std::vector<double> kCounts = {4, 8, 16, 32, 64, 128};

TEST(Law, SaysWhatAnEngineOfItsFormDoesElsewhere) {
  const Engine engine;
  const auto law = learn(engine.measured(kShapes, kCounts));
  ASSERT_TRUE(law);
  EXPECT_TRUE(std::isinf(law->cache.tokens));
  for (const Shape& shape : {Shape{1024, 1024}, Shape{2048, 1024}, Shape{1500, 3000}})
    for (const double n : {5.0, 24.0, 100.0}) {
      const Expected e = expect(*law, shape, n);
      const Point truth = engine.measured(shape, n);
      EXPECT_NEAR(e.tpot / truth.tpot, 1, 0.02) << shape.tokens_in << " " << n;
      EXPECT_NEAR(e.ttft / truth.ttft, 1, 0.05) << shape.tokens_in << " " << n;
      EXPECT_EQ(e.running, n);
      EXPECT_FALSE(e.shape_outside || e.concurrency_outside);
    }
}

TEST(Law, MarksWhatWasNotMeasured) {
  const auto law = learn(Engine().measured(kShapes, kCounts));
  ASSERT_TRUE(law);
  EXPECT_TRUE(expect(*law, {8192, 4096}, 16).shape_outside);
  EXPECT_FALSE(expect(*law, {8192, 4096}, 16).concurrency_outside);
  EXPECT_TRUE(expect(*law, {1024, 1024}, 256).concurrency_outside);
}

// Where the cache is full the others wait: the law finds how large it is, and says what a
// concurrency does that it has not seen, queue and all.
TEST(Law, FindsTheCacheInWhatWaits) {
  const Engine engine{.cache = 180'000};
  for (const double unseen : {64.0, 128.0}) {
    std::vector<Point> told;
    for (const Point& point : engine.measured(kShapes, kCounts))
      if (point.concurrency != unseen) told.push_back(point);
    const auto law = learn(told);
    ASSERT_TRUE(law);
    EXPECT_NEAR(law->cache.tokens / engine.cache, 1, 0.1);
    for (const Shape& shape : kShapes) {
      const Expected e = expect(*law, shape, unseen);
      const Point truth = engine.measured(shape, unseen);
      EXPECT_NEAR(e.tpot / truth.tpot, 1, 0.05) << shape.tokens_in << " " << unseen;
      EXPECT_NEAR(e.ttft / truth.ttft, 1, 0.15) << shape.tokens_in << " " << unseen;
    }
  }
}

// Kin: the same engine on a GPU that takes `times` as long, with a TTFT that departs from any law's
// form, up and down over four octaves of requests in flight.
Measured waving(const std::string& system, double times, double wave) {
  Measured one;
  one.configuration.system = system;
  one.configuration.model = "m";
  for (Point point : Engine().measured(kShapes, kCounts)) {
    const double phase = std::acos(0) * std::log2(point.concurrency);
    point.tpot = Millis{times * point.tpot.value};
    point.ttft = Millis{times * point.ttft.value * std::pow(wave, std::sin(phase))};
    one.points.push_back(point);
  }
  return one;
}
Measured without(Measured one, double concurrency) {
  std::erase_if(one.points, [&](const Point& p) { return p.concurrency == concurrency; });
  return one;
}
double ttft_error(const TokenLaw& law, const Measured& whole, double concurrency) {
  double sum = 0, count = 0;
  for (const Point& p : whole.points)
    if (p.concurrency == concurrency) {
      sum += std::abs(std::log(expect(law, p.shape, p.concurrency).ttft / p.ttft));
      ++count;
    }
  return sum / count;
}

TEST(Law, KinTellWhereTtftLeavesItsForm) {
  const Measured whole = waving("a", 1, 1.5), told = without(whole, 32);
  const auto kin = kin_of({waving("b", 1.5, 1.5), waving("c", 0.7, 1.5), whole});
  const auto alone = learn(told.points), together = learn(told, kin);
  ASSERT_TRUE(alone && together);
  EXPECT_LT(ttft_error(*together, whole, 32), 0.7 * ttft_error(*alone, whole, 32));
}

// Measured at one shape alone, a law does not know what of a TTFT is whose; kin that take another
// time, and were measured at other shapes, do.
TEST(Law, KinTellTheFormOfTtft) {
  Measured told, other;
  told.configuration.version = "1";
  other.configuration.version = "2";
  told.points = Engine().measured({{1024, 1024}}, kCounts);
  for (Point point : Engine().measured({{512, 512}, {4096, 512}, {16384, 1024}}, kCounts)) {
    point.ttft = 1.6 * point.ttft;
    other.points.push_back(point);
  }
  const auto alone = learn(told.points), together = learn(told, kin_of({other}));
  ASSERT_TRUE(alone && together);
  const Measured asked{told.configuration, Engine().measured({{8192, 1024}}, {32})};
  EXPECT_GT(ttft_error(*alone, asked, 32), 0.3);
  EXPECT_LT(ttft_error(*together, asked, 32), 0.2);
}

TEST(Law, KinThatGoOtherwiseAreNotBelieved) {
  const Measured whole = waving("a", 1, 1), told = without(whole, 64);
  const auto kin = kin_of({waving("b", 1, 2), waving("c", 1, 2), waving("d", 1, 2)});
  const auto together = learn(told, kin);
  ASSERT_TRUE(together);
  EXPECT_LT(ttft_error(*together, whole, 64), 0.1);
}

// What is asked for must not come from the same run under another name, nor from itself.
TEST(Law, TheSameRunUnderAnotherNameTellsNothing) {
  const Measured whole = waving("a", 1, 1.5), told = without(whole, 64);
  Measured renamed = whole;
  renamed.configuration.system = "b";
  const auto alone = learn(told.points), together = learn(told, kin_of({whole, renamed}));
  ASSERT_TRUE(alone && together);
  EXPECT_EQ(ttft_error(*together, whole, 64), ttft_error(*alone, whole, 64));
}

TEST(Law, KinTellTheCacheThatFits) {
  const Engine engine{.cache = 180'000};
  Measured told, other{{}, Engine{.step = 8, .cache = 180'000}.measured(kShapes, kCounts)};
  told.configuration.version = "1";
  other.configuration.version = "2";
  for (const Point& point : engine.measured(kShapes, kCounts))
    if (point.concurrency <= 16) told.points.push_back(point);
  const auto alone = learn(told.points);
  const auto together = learn(told, kin_of({other}));
  ASSERT_TRUE(alone && together);
  EXPECT_TRUE(std::isinf(alone->cache.tokens));
  EXPECT_NEAR(together->cache.tokens / engine.cache, 1, 0.1);
}

TEST(Law, OneBadMeasurementLeavesTheOthersAlone) {
  const Engine engine;
  std::vector<Point> points = engine.measured(kShapes, kCounts);
  points[8].tpot = 4 * points[8].tpot;
  points[8].ttft = 20 * points[8].ttft;
  const auto law = learn(points);
  ASSERT_TRUE(law);
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 8) continue;
    const Expected e = expect(*law, points[i].shape, points[i].concurrency);
    EXPECT_NEAR(e.tpot / points[i].tpot, 1, 0.04) << i;
    EXPECT_NEAR(e.ttft / points[i].ttft, 1, 0.2) << i;
  }
}

TEST(Law, NeedsPointsAndHasALimit) {
  const Engine engine;
  const std::vector<Point> some = engine.measured({{1024, 1024}}, kCounts);
  EXPECT_FALSE(learn({some.begin(), some.begin() + 4}));
  EXPECT_TRUE(learn({some.begin(), some.begin() + 5}));
  EXPECT_FALSE(learn(std::vector<Point>(kMostPoints + 1, some.front())));
}

}  // namespace
}  // namespace partita::llm
