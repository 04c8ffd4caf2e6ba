// The package around the grid of a chip: what surrounds the die's area on spreader and sink, and on
// substrate, solder and board. Internal to the module: network.cc calls it.
#pragma once

#include "heat/network_parts.h"

namespace partita::thermal {

// Heat capacities are multiplied by this, as HotSpot does: lumped where they are distributed.
inline constexpr double kLumpedCapacity = 0.333;

// The secondary path's materials, which HotSpot has no keys for. W/(m K) and J/(m^3 K).
struct Solid {
  double conductivity = 0, capacity = 0;
};
inline constexpr Solid kMetal{400, 3.55e6}, kC4{1.25, 1.65e6}, kSubstrate{2, 1.6e6},
    kSolderBalls{1 / 0.06, 2.1e6}, kBoard{1 / 0.333, 1.32e6};

// Adds the package nodes, their links, and the ties of the layers that have them: the last two are
// spreader and sink; with the secondary path the first three are board, solder and substrate.
void add_package(Network::Parts& parts, const PackageConfig& config);

}  // namespace partita::thermal
