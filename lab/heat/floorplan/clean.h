// Etching and other marks taken out of pictures: the dissertation's median filter, and calibration
// with pictures at even temperatures.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "heat/floorplan/session.h"

namespace partita::floorplan {

struct MedianFilter {
  int size = 20;           // pixels across
  double percentile = 90;  // of the gradient's magnitude; what is above is replaced
  int rounds = 8;
};
// Repeats: pixels whose gradient is above the percentile become the median around them.
raster::Grid median_filtered(const raster::Grid& picture, const MedianFilter& filter);

// Per pixel a straight line through the readings at even temperatures: what it shows of a kelvin,
// and what it shows at none.
struct Calibration {
  raster::Grid gain, offset;
};
// Refused: fewer than two temperatures, temperatures less than 1 K apart, a pixel whose gain is
// not in 0.1 .. 10 (nothing to see there).
Result<Calibration> calibrated(const std::vector<EvenPicture>& even, const std::string& name);
raster::Grid corrected(const raster::Grid& reading, const Calibration& calibration);

}  // namespace partita::floorplan
