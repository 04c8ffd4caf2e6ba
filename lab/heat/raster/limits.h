// What the readers of all picture files refuse before they take memory.
#pragma once

#include <string>

namespace partita::raster {

inline constexpr int kMostSide = 1 << 16;  // rows and columns

inline std::string too_many_cells() { return "more than 2^28 cells in one file"; }

}  // namespace partita::raster
