#include "heat/floorplan/clean.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace partita::floorplan {
namespace {

constexpr double kLeastApart = 1;  // kelvin between the even temperatures

raster::Grid gradient(const raster::Grid& picture) {
  raster::Grid size(picture.rows, picture.cols);
  for (int r = 0; r < picture.rows; ++r)
    for (int c = 0; c < picture.cols; ++c) {
      const int above = std::max(r - 1, 0), below = std::min(r + 1, picture.rows - 1);
      const int left = std::max(c - 1, 0), right = std::min(c + 1, picture.cols - 1);
      size.at(r, c) =
          std::hypot((picture.at(below, c) - picture.at(above, c)) / std::max(1, below - above),
                     (picture.at(r, right) - picture.at(r, left)) / std::max(1, right - left));
    }
  return size;
}

double median_around(const raster::Grid& picture, int row, int col, int size) {
  std::vector<double> values;
  for (int r = std::max(0, row - size / 2); r < std::min(picture.rows, row + (size + 1) / 2); ++r)
    for (int c = std::max(0, col - size / 2); c < std::min(picture.cols, col + (size + 1) / 2); ++c)
      values.push_back(picture.at(r, c));
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

raster::Grid median_filtered(const raster::Grid& picture, const MedianFilter& filter) {
  CHECK(filter.size >= 2 && filter.percentile >= 0 && filter.percentile <= 100);
  raster::Grid now = picture;
  for (int round = 0; round < filter.rounds; ++round) {
    const raster::Grid steep = gradient(now);
    std::vector<double> sorted = steep.values;
    const auto at = static_cast<std::ptrdiff_t>(
        std::min(static_cast<double>(sorted.size()) - 1,
                 filter.percentile / 100 * static_cast<double>(sorted.size())));
    std::nth_element(sorted.begin(), sorted.begin() + at, sorted.end());
    const double limit = sorted[static_cast<std::size_t>(at)];
    raster::Grid next = now;
    for (int r = 0; r < now.rows; ++r)
      for (int c = 0; c < now.cols; ++c)
        if (steep.at(r, c) > limit) next.at(r, c) = median_around(now, r, c, filter.size);
    now = std::move(next);
  }
  return now;
}

Result<Calibration> calibrated(const std::vector<EvenPicture>& even, const std::string& name) {
  if (even.size() < 2) return bad_input(name, "calibration needs pictures of two temperatures");
  double mean = 0, weight = 0, spread = 0;
  for (const EvenPicture& one : even) mean += one.frames * one.kelvin, weight += one.frames;
  mean /= weight;
  for (const EvenPicture& one : even) spread += one.frames * std::pow(one.kelvin - mean, 2);
  if (std::sqrt(spread / weight) < kLeastApart / 2)
    return bad_input(name, "the calibration's temperatures are less than 1 K apart");
  Calibration made{even[0].reading, even[0].reading};
  for (std::size_t i = 0; i < made.gain.values.size(); ++i) {
    double read = 0, slope = 0;
    for (const EvenPicture& one : even) {
      read += one.frames * one.reading.values[i] / weight;
      slope += one.frames * (one.kelvin - mean) * one.reading.values[i] / spread;
    }
    if (!(slope >= 0.1 && slope <= 10))
      return bad_input(name, fmt::format("row {}, column {} shows {:.3g} K per kelvin in the "
                                         "calibration; 0.1 to 10 can be",
                                         i / static_cast<std::size_t>(made.gain.cols),
                                         i % static_cast<std::size_t>(made.gain.cols), slope));
    made.gain.values[i] = slope;
    made.offset.values[i] = read - slope * mean;
  }
  return made;
}

raster::Grid corrected(const raster::Grid& reading, const Calibration& calibration) {
  raster::Grid kelvin = reading;
  for (std::size_t i = 0; i < kelvin.values.size(); ++i)
    kelvin.values[i] =
        (reading.values[i] - calibration.offset.values[i]) / calibration.gain.values[i];
  return kelvin;
}

}  // namespace partita::floorplan
