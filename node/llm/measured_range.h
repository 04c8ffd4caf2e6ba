// What was measured, so that a prediction can say that it is about something else: concurrencies
// from the least to the most, and shapes inside the polygon around the measured ones, over the
// logarithms of tokens in and out.
#pragma once

#include <vector>

#include "llm/points.h"

namespace partita::llm {

struct MeasuredRange {
  std::vector<Shape> corners;  // of the polygon, counterclockwise; one or two: a point or a line
  double least_concurrency = 0, most_concurrency = 0;

  bool holds(const Shape& shape) const;  // corners and edges are inside
  bool holds(double concurrency) const;
};
MeasuredRange range_of(const std::vector<Point>& points);  // of at least one

}  // namespace partita::llm
