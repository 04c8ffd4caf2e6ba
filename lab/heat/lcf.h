// HotSpot's layer files (.lcf): the layers of a stacked chip, from the board's side to the sink's.
// Per layer, a line each: number, sideways heat flow Y or N, power Y or N, heat capacity and
// resistivity or a material's name, thickness, floorplan file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heat/config.h"

namespace partita::thermal {

inline constexpr int kMostLayers = 64;

struct LayerLine {
  int line = 0;
  bool lateral = true, power = false;
  double capacity = 0, resistivity = 0;  // 0 where a material is named
  std::string material;
  double thickness = 0;
  std::string flp;  // as written
};

// By their numbers, which are to be 0, 1, 2 ... Refused with FILE:LINE.
Result<std::vector<LayerLine>> read_lcf(const std::string& file, std::string_view text);

}  // namespace partita::thermal
