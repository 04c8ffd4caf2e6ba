// HotSpot's floorplans (.flp): a block a line, `name width height left bottom`, metres, y upwards,
// # comments; two more numbers, heat capacity and resistivity, may follow.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "heat/floorplan.h"

namespace partita::thermal {

inline constexpr std::size_t kMostBlocks = 4096;

// Moved to the origin. Refused with FILE:LINE: names that stand twice, sizes that no chip has
// (millimetres given as metres), and blocks that overlap by more than a micrometre.
Result<Floorplan> read_flp(const std::string& file, std::string_view text);
// read_flp reads it back the same, but for the last digits.
std::string write_flp(const Floorplan& plan);

// The share of the die that no block covers, 0 .. 1.
double uncovered_share(const Floorplan& plan);

}  // namespace partita::thermal
