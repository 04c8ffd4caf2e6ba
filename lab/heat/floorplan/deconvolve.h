// From a picture of temperatures back to where the power is made. In cosine modes the way there is
// a factor (modes.h); what is lost in noise comes from what is known of floorplans: power is not
// negative, and even inside blocks with straight sides.
#pragma once

#include <vector>

#include "heat/floorplan/modes.h"

namespace partita::floorplan {

// What the data are worth, mode by mode.
struct Trust {
  std::vector<double> kernel;    // kelvin per watt per pixel
  std::vector<double> expected;  // mean square of a mode of the power, watt^2 per watt^2
  double noise = 0;              // standard deviation of a pixel, kelvin per watt
  double model_error = 0.05;     // share by which the kernel may be wrong
};
// `noise` per watt of the component.
Trust trust_of(const SlabGuess& slab, const Session& session, double noise);

// The mode-wise best linear answer, watts per pixel and watt.
raster::Grid wiener(const raster::Grid& kelvin_per_watt, const Trust& trust);

struct TotalVariation {
  double weight = 1;  // times what the noise asks for
  int iterations = 120;
};
// The answer that is nowhere negative and has the least total variation for how well it explains
// the picture (ADMM; its linear systems are factors in cosine modes). The weight of the variation
// follows from the noise: its dual field has to be able to hold what noise pushes.
raster::Grid smooth_power(const raster::Grid& kelvin_per_watt, const Trust& trust,
                          const TotalVariation& how);

// In cosine modes, widths in pixels.
raster::Grid gaussian(const raster::Grid& grid, double sigma_px);
// The negative Laplacian per pixel, insulated edges.
raster::Grid negative_laplacian(const raster::Grid& grid);

}  // namespace partita::floorplan
