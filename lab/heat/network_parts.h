// What a Network is made of, for the solvers of this module: layers of equal cells, links and
// capacities of package nodes, and which cells a block covers. Conductances are W/K, capacities
// J/K. Package nodes are in HotSpot's order: west, east, north, south of spreader, of the sink
// under it, of the sink's rim; then of substrate, solder, board under it, board's rim.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heat/network.h"

namespace partita::thermal {

// The package nodes that a layer's edge cells are tied to.
struct EdgeTies {
  int first_node = -1;                    // west; east, north and south follow; -1: insulated edges
  double west_east = 0, north_south = 0;  // of one cell
};

struct CellLayer {
  double east = 0, south = 0;  // between neighbours
  double above = 0;            // to the layer after it; 0 for the last
  double ambient = 0;
  double capacity = 0;
  EdgeTies ties;
  bool power = false;
  std::string prefix;  // HotSpot's, for names of blocks in this layer
  int plan = 0;        // Network::Parts::plans
};

// From a package node to another or, to = -1, to ambient.
struct PackageLink {
  int from = 0, to = -1;
  double conductance = 0;
};

// The cells that a block touches, [row_from, row_to) x [col_from, col_to), and the share of each
// row's height and column's width that it covers.
struct BlockCells {
  std::string name;
  int row_from = 0, row_to = 0, col_from = 0, col_to = 0;
  std::vector<double> row_share, col_share;
  double cells = 0;  // its area in cells
};

struct Network::Parts {
  int rows = 0, cols = 0;
  double width = 0, height = 0, ambient = 0;
  std::vector<CellLayer> layers;
  std::vector<PackageLink> links;
  std::vector<double> package_capacity;
  std::vector<std::vector<BlockCells>> plans;
  std::vector<std::string> power_blocks;  // names, layer after layer
  MapMode mode = MapMode::avg;
  bool cold_gaps = false;  // HotSpot's start of a transient

  std::size_t cells() const {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  }
  std::size_t nodes() const { return layers.size() * cells() + package_capacity.size(); }
};

// A block's temperature by the network's map mode, from its layer's cells.
double block_temperature(const Network::Parts& parts, std::span<const double> map,
                         const BlockCells& cells);

}  // namespace partita::thermal
