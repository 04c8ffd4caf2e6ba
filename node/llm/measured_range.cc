#include "llm/measured_range.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::llm {
namespace {

constexpr double kOnTheEdge = 1e-9;  // of squared octaves

struct Spot {
  double x, y;
};
Spot spot_of(const Shape& shape) {
  return {std::log2(shape.tokens_in), std::log2(shape.tokens_out)};
}

// Above 0: c lies to the left of the way from a to b.
double turn(const Shape& a, const Shape& b, const Shape& c) {
  const Spot p = spot_of(a), q = spot_of(b), r = spot_of(c);
  return (q.x - p.x) * (r.y - p.y) - (q.y - p.y) * (r.x - p.x);
}

bool between(const Shape& a, const Shape& b, const Shape& c) {
  const auto within = [](int one, int other, int value) {
    return std::min(one, other) <= value && value <= std::max(one, other);
  };
  return within(a.tokens_in, b.tokens_in, c.tokens_in) &&
         within(a.tokens_out, b.tokens_out, c.tokens_out);
}

// One side of the polygon around sorted shapes (Andrew's monotone chain), without its last corner.
template <class Shapes>
std::vector<Shape> side(const Shapes& sorted) {
  std::vector<Shape> chain;
  for (const Shape& shape : sorted) {
    while (chain.size() > 1 && turn(chain[chain.size() - 2], chain.back(), shape) <= kOnTheEdge)
      chain.pop_back();
    chain.push_back(shape);
  }
  chain.pop_back();
  return chain;
}

}  // namespace

bool MeasuredRange::holds(const Shape& shape) const {
  if (corners.size() == 1) return shape == corners.front();
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Shape& from = corners[i];
    const Shape& to = corners[(i + 1) % corners.size()];
    const double side = turn(from, to, shape);
    if (side < -kOnTheEdge) return false;
    if (corners.size() == 2 && (side > kOnTheEdge || !between(from, to, shape))) return false;
  }
  return !corners.empty();
}

bool MeasuredRange::holds(double concurrency) const {
  return least_concurrency <= concurrency && concurrency <= most_concurrency;
}

MeasuredRange range_of(const std::vector<Point>& points) {
  CHECK(!points.empty());
  std::vector<Shape> shapes;
  for (const Point& point : points) shapes.push_back(point.shape);
  std::ranges::sort(shapes);
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  const auto [least, most] = std::ranges::minmax_element(points, {}, &Point::concurrency);
  MeasuredRange range{{}, least->concurrency, most->concurrency};
  if (shapes.size() == 1) {
    range.corners = shapes;
    return range;
  }
  range.corners = side(shapes);
  std::ranges::reverse(shapes);
  const std::vector<Shape> back = side(shapes);
  range.corners.insert(range.corners.end(), back.begin(), back.end());
  return range;
}

}  // namespace partita::llm
