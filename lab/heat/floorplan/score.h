// How near recovered blocks are to the true ones.
#pragma once

#include "heat/floorplan.h"
#include "heat/raster/grid.h"

namespace partita::floorplan {

// Area both share over the area that either covers; 0 where they do not meet.
double intersection_over_union(const thermal::Block& a, const thermal::Block& b);
// Distance of the centres, metres.
double centroid_distance(const thermal::Block& a, const thermal::Block& b);
// The mean over the four edges of how far they are apart, metres.
double edge_distance(const thermal::Block& a, const thermal::Block& b);

// The same for sets of pixels: cells of two grids of one size are inside where they are over 0.5.
double intersection_over_union(const raster::Grid& a, const raster::Grid& b);
double centroid_distance(const raster::Grid& a, const raster::Grid& b, double pixel_m);

// The cells that lie mostly in one of these blocks: 1, others 0. Row 0 is the top.
raster::Grid mask_of(const std::vector<thermal::Block>& blocks, int rows, int cols, double pixel_m);
// The share of each cell that lies in the block: 0..1.
raster::Grid cover_of(const thermal::Block& block, int rows, int cols, double pixel_m);

}  // namespace partita::floorplan
