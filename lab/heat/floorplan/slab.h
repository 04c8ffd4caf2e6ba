// The forward physics of the simulator: heat in a stack of layers on a grid of square cells, solved
// with conjugate gradients whose preconditioner is the same stack with even edges and an even
// bottom (cosine transforms across, a tridiagonal system along). Power enters the first layer's
// bottom neighbour: layer 0 is what the camera sees.
#pragma once

#include <vector>

#include "heat/raster/grid.h"

namespace partita::floorplan {

struct SlabLayer {
  double thickness_m = 0, conductivity = 0;
  double edge_conductance = 0;  // W/K of one cell's outer face to the surroundings
};

struct Slab {
  double cell_m = 0;
  std::vector<SlabLayer> layers;    // top to bottom
  int heated = 0;                   // the layer in which power is made
  double top_conductance = 0;       // W/m2K to the surroundings
  raster::Grid bottom_conductance;  // W/m2K of every cell to the cooler
};

// Temperatures of the top above cooler and surroundings (taken as one temperature), for watts per
// cell. The relative residual is at most 1e-8.
raster::Grid top_rise(const Slab& slab, const raster::Grid& watts);

}  // namespace partita::floorplan
