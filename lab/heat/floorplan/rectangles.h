// Blocks as rectangles, fitted to all pictures at once: edges, how components share their power
// among their blocks, how wrong each counter was, and what is not known of the slab. Rectangles are
// closed forms in cosine modes, so a step costs milliseconds.
#pragma once

#include <string>
#include <vector>

#include "heat/floorplan/modes.h"

namespace partita::floorplan {

// Pixels, y downwards from the top.
struct PixelBox {
  double left = 0, right = 0, top = 0, bottom = 0;
};

// The `count` strongest patches of a map of power inside `window`, as boxes of the same centre and
// spread; from top to bottom, then from left to right.
std::vector<PixelBox> strongest_patches(const raster::Grid& power, const PixelBox& window,
                                        int count);

struct RectangleFit {
  std::vector<std::vector<PixelBox>> boxes;  // per component, per block
  SlabGuess slab;
  double misfit = 0;                          // mean square of the weighted residual; about 1
  std::vector<std::vector<double>> counters;  // per capture and component: what to multiply by
  int steps = 0;
};
struct RectangleOptions {
  double counter_error = 0.05;  // how wrong counters are, as a share
  double model_error = 0.03;    // how wrong the slab's kernel stays after it is fitted
  int steps = 40;
};
// `pictures`: kelvin, clean, one per capture.
RectangleFit fit_rectangles(const Session& session, const std::vector<raster::Grid>& pictures,
                            const RectangleFit& start, const RectangleOptions& options);

}  // namespace partita::floorplan
