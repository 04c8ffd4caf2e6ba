// A floorplan: named rectangles on a chip, metres, the origin at the lower left corner (HotSpot's
// .flp). The form is in flp.h.
#pragma once

#include <string>
#include <vector>

namespace partita::thermal {

struct Block {
  std::string name;
  double width = 0, height = 0, left = 0, bottom = 0;  // metres
  bool operator==(const Block&) const = default;
};

struct Floorplan {
  std::vector<Block> blocks;     // in the file's order; names are unique
  double width = 0, height = 0;  // extents; blocks start at 0, 0
  bool own_materials = false;    // some block states its own capacity or resistivity
  bool operator==(const Floorplan&) const = default;
};

}  // namespace partita::thermal
