#include "llm/measured_range.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace partita::llm {
namespace {

std::vector<Point> points_of(const std::vector<Shape>& shapes) {
  std::vector<Point> points;
  for (const Shape& shape : shapes) points.push_back({shape, 4, Millis{1}, Millis{1}});
  points.back().concurrency = 64;
  return points;
}

TEST(MeasuredRange, ATriangleHoldsItsInsideOnly) {
  const MeasuredRange range = range_of(points_of({{1024, 1024}, {1024, 8192}, {8192, 1024}}));
  EXPECT_TRUE(range.holds(Shape{1024, 8192}));
  EXPECT_TRUE(range.holds(Shape{2048, 2048}));
  EXPECT_TRUE(range.holds(Shape{2896, 2896}));   // just below the middle of the long side
  EXPECT_FALSE(range.holds(Shape{2900, 2900}));  // just above
  EXPECT_FALSE(range.holds(Shape{8192, 8192}));
  EXPECT_FALSE(range.holds(Shape{1023, 1024}));
  EXPECT_TRUE(range.holds(4.0));
  EXPECT_TRUE(range.holds(64.0));
  EXPECT_FALSE(range.holds(65.0));
  EXPECT_FALSE(range.holds(3.0));
}

TEST(MeasuredRange, ALineAndAPointHoldNothingBesideThem) {
  const MeasuredRange line = range_of(points_of({{256, 128}, {1024, 512}, {512, 256}}));
  EXPECT_TRUE(line.holds(Shape{512, 256}));
  EXPECT_FALSE(line.holds(Shape{512, 257}));
  EXPECT_FALSE(line.holds(Shape{2048, 1024}));
  const MeasuredRange point = range_of(points_of({{256, 128}, {256, 128}}));
  EXPECT_TRUE(point.holds(Shape{256, 128}));
  EXPECT_FALSE(point.holds(Shape{256, 129}));
}

// Whether `a` lies in the triangle, by the signs of its three turns.
bool in_triangle(const Shape& a, const Shape& p, const Shape& q, const Shape& r) {
  const auto turn = [](const Shape& from, const Shape& to, const Shape& c) {
    const auto x = [](const Shape& s) { return std::log2(s.tokens_in); };
    const auto y = [](const Shape& s) { return std::log2(s.tokens_out); };
    return (x(to) - x(from)) * (y(c) - y(from)) - (y(to) - y(from)) * (x(c) - x(from));
  };
  const double one = turn(p, q, a), two = turn(q, r, a), three = turn(r, p, a);
  if (std::abs(turn(p, q, r)) < 1e-6) return false;  // a line
  const double least = std::min({one, two, three}), most = std::max({one, two, three});
  return least >= -1e-9 || most <= 1e-9;
}

// A polygon around points is all triangles of them.
TEST(MeasuredRange, AgreesWithAllTriangles) {
  Rng rng(7);
  const auto shape = [&] {
    return Shape{1 << static_cast<int>(5 + rng.below(6)), 1 << static_cast<int>(5 + rng.below(6))};
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<Shape> shapes;
    for (int i = 0; i < 6; ++i) shapes.push_back(shape());
    const MeasuredRange range = range_of(points_of(shapes));
    if (range.corners.size() < 3) continue;
    const Shape asked = shape();
    bool found = false;
    for (const Shape& p : shapes)
      for (const Shape& q : shapes)
        for (const Shape& r : shapes) found = found || in_triangle(asked, p, q, r);
    EXPECT_EQ(range.holds(asked), found) << asked.tokens_in << " " << asked.tokens_out;
  }
}

}  // namespace
}  // namespace partita::llm
