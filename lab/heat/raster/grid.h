// A grid of numbers: a temperature map, an infrared image, a power map. Row 0 is the north (top)
// edge, as in pictures and in HotSpot's grid files.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"

namespace partita::raster {

struct Grid {
  int rows = 0, cols = 0;
  std::vector<double> values;  // rows * cols, row by row

  Grid() = default;
  Grid(int r, int c, double value = 0)
      : rows(r), cols(c), values(static_cast<std::size_t>(r) * static_cast<std::size_t>(c), value) {
    CHECK(r >= 0 && c >= 0);
  }
  double& at(int row, int col) { return values[index(row, col)]; }
  double at(int row, int col) const { return values[index(row, col)]; }
  bool operator==(const Grid&) const = default;

 private:
  std::size_t index(int row, int col) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(cols) +
           static_cast<std::size_t>(col);
  }
};

}  // namespace partita::raster
