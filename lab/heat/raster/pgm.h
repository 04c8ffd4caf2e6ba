// Netpbm's grey pictures, P2 and P5, 8 and 16 bit; several behind one another are several frames.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::raster {

Result<std::vector<Grid>> read_pgm(std::string_view bytes, const std::string& name);
// P5 with 16 bits; values are rounded and kept within 0 .. 65535.
std::string write_pgm(const Grid& grid);

}  // namespace partita::raster
