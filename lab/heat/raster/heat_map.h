// Grids as pictures: a colour per value, a scale beside it. Colours are a perceptually even ramp
// that the colour-blind can read, dark where it is cold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heat/raster/grid.h"

namespace partita::raster {

// A rectangle drawn over the map with its name: a block of a floorplan. Fractions of the grid's
// width and height, y from the top.
struct Outline {
  std::string name;
  double x = 0, y = 0, width = 0, height = 0;
};

struct HeatMapOptions {
  std::string title, unit;                // "K"
  std::optional<double> lowest, highest;  // ends of the scale; those of the values where empty
  std::vector<Outline> outlines;
};

// A PNG file's bytes, one pixel (or an even number of them) per cell, at least 256 wide.
std::string heat_map_png(const Grid& grid, const HeatMapOptions& options);
// An SVG document: the picture inside it, outlines with names, title and scale.
std::string heat_map_svg(const Grid& grid, const HeatMapOptions& options);

}  // namespace partita::raster
