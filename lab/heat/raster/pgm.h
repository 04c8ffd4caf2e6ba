// Netpbm's grey pictures, P2 and P5, 8 and 16 bit; several behind one another are several frames.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::raster {

Result<std::vector<Grid>> read_pgm(std::string_view bytes, const std::string& name);

}  // namespace partita::raster
