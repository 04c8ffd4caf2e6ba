#include "heat/floorplan/score.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace partita::floorplan {
namespace {

double overlap(double a, double a_end, double b, double b_end) {
  return std::max(0.0, std::min(a_end, b_end) - std::max(a, b));
}

}  // namespace

double intersection_over_union(const thermal::Block& a, const thermal::Block& b) {
  const double both = overlap(a.left, a.left + a.width, b.left, b.left + b.width) *
                      overlap(a.bottom, a.bottom + a.height, b.bottom, b.bottom + b.height);
  const double either = a.width * a.height + b.width * b.height - both;
  return either > 0 ? both / either : 0;
}

double centroid_distance(const thermal::Block& a, const thermal::Block& b) {
  return std::hypot(a.left + a.width / 2 - b.left - b.width / 2,
                    a.bottom + a.height / 2 - b.bottom - b.height / 2);
}

double edge_distance(const thermal::Block& a, const thermal::Block& b) {
  return (std::abs(a.left - b.left) + std::abs(a.left + a.width - b.left - b.width) +
          std::abs(a.bottom - b.bottom) + std::abs(a.bottom + a.height - b.bottom - b.height)) /
         4;
}

double intersection_over_union(const raster::Grid& a, const raster::Grid& b) {
  CHECK(a.rows == b.rows && a.cols == b.cols);
  long both = 0, either = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const bool in_a = a.values[i] > 0.5, in_b = b.values[i] > 0.5;
    both += in_a && in_b;
    either += in_a || in_b;
  }
  return either > 0 ? static_cast<double>(both) / static_cast<double>(either) : 0;
}

double centroid_distance(const raster::Grid& a, const raster::Grid& b, double pixel_m) {
  const auto centre = [](const raster::Grid& grid) {
    double x = 0, y = 0, count = 0;
    for (int r = 0; r < grid.rows; ++r)
      for (int c = 0; c < grid.cols; ++c)
        if (grid.at(r, c) > 0.5) x += c, y += r, count += 1;
    return std::pair{x / count, y / count};
  };
  const auto [ax, ay] = centre(a);
  const auto [bx, by] = centre(b);
  const double distance = std::hypot(ax - bx, ay - by) * pixel_m;
  return std::isfinite(distance) ? distance : std::numeric_limits<double>::infinity();
}

raster::Grid cover_of(const thermal::Block& block, int rows, int cols, double pixel_m) {
  raster::Grid cover(rows, cols);
  for (int r = 0; r < rows; ++r) {
    const double below = (rows - 1 - r) * pixel_m;
    const double tall =
        overlap(below, below + pixel_m, block.bottom, block.bottom + block.height) / pixel_m;
    if (tall <= 0) continue;
    for (int c = 0; c < cols; ++c)
      cover.at(r, c) =
          tall / pixel_m *
          overlap(c * pixel_m, (c + 1) * pixel_m, block.left, block.left + block.width);
  }
  return cover;
}

raster::Grid mask_of(const std::vector<thermal::Block>& blocks, int rows, int cols,
                     double pixel_m) {
  raster::Grid mask(rows, cols);
  for (const thermal::Block& block : blocks) {
    const raster::Grid cover = cover_of(block, rows, cols, pixel_m);
    for (std::size_t i = 0; i < mask.values.size(); ++i)
      mask.values[i] = std::max(mask.values[i], cover.values[i] > 0.5 ? 1.0 : 0.0);
  }
  return mask;
}

}  // namespace partita::floorplan
