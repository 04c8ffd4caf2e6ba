// A chip with its package as a network of thermal resistances and capacities: layers of equal
// cells, and package nodes at the edges of spreader and sink (and of substrate, solder and board,
// where the secondary path is modelled). The grid model of HotSpot 7, derived anew; what is told
// apart from it is in docs/thermal.md. A value; immutable once made. Pure.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "heat/config.h"
#include "heat/floorplan.h"
#include "heat/raster/grid.h"

namespace partita::thermal {

inline constexpr int kMostGridSide = 2048;

// One layer of the chip's stack between package and heat spreader.
struct ChipLayer {
  double capacity = 0;      // J/(m^3 K)
  double conductivity = 0;  // W/(m K)
  double thickness = 0;     // m
  bool lateral = true;      // heat flows sideways in it
  bool power = false;       // its blocks dissipate
  Floorplan plan;
};

// What is modelled: layers from the board's side to the sink's, without metal, C4 and the rest of
// the secondary path and without spreader and sink, which the configuration describes.
struct Chip {
  PackageConfig config;
  std::vector<ChipLayer> layers;
  bool stack = false;  // made from a layer file: HotSpot then names the layers by number
};

// A single die: silicon with the blocks of `plan`, and thermal interface material above it.
Chip one_die(const PackageConfig& config, const Floorplan& plan);

struct NetworkOptions {
  int rows = 64, cols = 64;
  bool hotspot_compat = false;  // HotSpot's defects too, see docs/thermal.md
};

// Temperatures of every node, kelvin: layer by layer as Network::layer_names() has them, row by row
// from the north, then the package nodes.
struct Solution {
  std::vector<double> kelvin;
};

class Network {
 public:
  int rows() const;
  int cols() const;
  int layers() const;
  int package_nodes() const;  // 12, or 28 with the secondary path
  std::size_t nodes() const;  // layers x rows x cols + package_nodes
  double ambient() const;
  // Blocks that dissipate, layer after layer; powers and ROM follow this order.
  const std::vector<std::string>& block_names() const;

  struct Parts;  // network_parts.h, for solvers
  explicit Network(std::shared_ptr<const Parts> parts);
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

// Refused: what physics does not allow, and more than kMostGridSide cells a side.
Result<Network> make_network(const Chip& chip, const NetworkOptions& options);

// The cells of one layer as a grid.
raster::Grid layer_map(const Network& network, const Solution& solution, int layer);
// The layers with power, as indices for layer_map.
std::vector<int> power_layers(const Network& network);
// Temperatures of the blocks of block_names(), by the configuration's map mode.
std::vector<double> block_temperatures(const Network& network, const Solution& solution);

}  // namespace partita::thermal
