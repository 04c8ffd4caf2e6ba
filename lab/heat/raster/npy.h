// NumPy's form of an array: float32, float64, uint8, uint16 of either byte order, two or three
// dimensions, C order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::raster {

Result<std::vector<Grid>> read_npy(std::string_view bytes, const std::string& name);

}  // namespace partita::raster
