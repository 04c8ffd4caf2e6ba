// From an infrared session to a floorplan, by every method side by side: the dissertation's
// pipeline as it is written (M0) and smoothed (M1), and what comes out of calibration, counters,
// inversion and rectangles.
#pragma once

#include <string>
#include <vector>

#include "heat/floorplan/rectangles.h"

namespace partita::floorplan {

// What one method says of every component: a map of power in any unit, and the cells over half of
// its largest value in the window.
struct MethodMaps {
  std::string method, about;
  std::vector<raster::Grid> maps, masks;  // per component
};

struct RecoverOptions {
  double variation = 1;  // times the weight of the total variation
  double counter_error = 0.05;
  bool dissertation = true;  // M0 and M1 too
};

struct Recovery {
  std::vector<MethodMaps> methods;  // simplest first; the rectangles are not among them
  RectangleFit fit;
  thermal::Floorplan plan;  // the rectangles, metres; the picture's lower left is 0, 0
  double kelvin_span = 0;   // largest difference of a capture from the captures' mean in the window
};

// Refused with `name` before the message: what cannot be (see check_session).
Result<Recovery> recover(const Session& session, const RecoverOptions& options,
                         const std::string& name);

// Sizes that agree, finite temperatures between 200 and 500 K, a die of 0.1 to 100 mm, watts that
// are not negative, at least one block per component, unique names.
Result<void> check_session(const Session& session, const std::string& name);

// How good it is. Blocks that are in the truth and in the window's components.
struct BlockScore {
  std::string block;
  double iou = 0, centroid_m = 0, edge_m = 0;
};
struct MethodScore {
  std::string method;
  double iou = 0, centroid_m = 0;  // means over components (maps) or blocks (rectangles)
  double edge_m = 0;               // rectangles only
  std::vector<BlockScore> blocks;  // rectangles only
};
// One per method, the rectangles last. Maps are compared as sets of cells per component. Refused: a
// block that the truth lacks.
Result<std::vector<MethodScore>> scores(const Session& session, const Recovery& recovery,
                                        const thermal::Floorplan& truth, const std::string& name);

}  // namespace partita::floorplan
