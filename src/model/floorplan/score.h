// How near a recovered block is to the true one.
#pragma once

#include "model/thermal/floorplan.h"
#include "raster/grid.h"

namespace partita::floorplan {

// Area both share over the area that either covers; 0 where they do not meet.
double intersection_over_union(const thermal::Block& a, const thermal::Block& b);
// Distance of the centres, metres.
double centroid_distance(const thermal::Block& a, const thermal::Block& b);

}  // namespace partita::floorplan
