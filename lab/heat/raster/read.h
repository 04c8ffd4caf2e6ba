// Grids and stacks of grids from files: PGM (P2, P5; 8 and 16 bit), PNG (grey, 8 and 16 bit), NPY
// (float32, float64, uint8, uint16; 2 or 3 dimensions, C order). The file's kind is told by its
// first bytes. Refusals name the file and what is wrong with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::raster {

inline constexpr std::size_t kMostCells = std::size_t{1} << 28;  // of one file, all frames

// All frames of the file, of one size; at least one.
Result<std::vector<Grid>> read_grids(std::string_view bytes, const std::string& name);
// The NPY form (float64) of one grid or, in three dimensions, of several of one size.
std::string write_npy(const std::vector<Grid>& grids);

}  // namespace partita::raster
