// The chip as recovery sees it: one slab of silicon with the power at its bottom and a conductance
// below, in the cosine modes of the picture, in which it is a factor per mode.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "heat/floorplan/session.h"
#include "base/numeric/dct.h"

namespace partita::floorplan {

// What is not known well of the slab, and is fitted.
struct SlabGuess {
  double conductivity = 130;  // W/mK
  double thickness_m = 0.7e-3;
  double bottom = 2000;    // W/m2K below, for even heating
  double contact = 20000;  // W/m2K between silicon and substrate
  double sheet = 0.01;     // W/K across substrate and board, conductivity times thickness
};

// Kelvin of the picture per watt per pixel, of each mode (rows x cols, row by row).
std::vector<double> kernel(const SlabGuess& slab, const Session& session);
// The wave numbers of the modes, 1/m.
std::vector<double> wave_numbers(int rows, int cols, double pixel_m);

// A component's picture per watt, by least squares over the captures with a free picture that all
// share (idle, and what no counter sees).
struct Unmixed {
  std::vector<raster::Grid> kelvin_per_watt;  // per component
  std::vector<double> noise;                  // standard deviation of their pixels
};
// Refused: fewer captures than unknowns, or counters that do not tell the components apart.
Result<Unmixed> unmixed(const Session& session, const std::vector<raster::Grid>& pictures,
                        const std::string& name);

}  // namespace partita::floorplan
