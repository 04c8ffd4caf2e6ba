// PNG files through libpng. libpng leaves a failed call with longjmp: the functions here hold
// nothing with a destructor where it may pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "heat/raster/grid.h"

namespace partita::raster {

// A grey picture of 8 or 16 bits, interlaced or not; colour, palettes and transparency are refused.
Result<Grid> read_png(std::string_view bytes, const std::string& name);

// A picture to write: 16-bit grey where there is no palette, else a palette's index per pixel.
struct PngPicture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> bytes;    // row by row; 16 bits with the high byte first
  std::vector<std::uint8_t> palette;  // red, green, blue; at most 256 colours
  std::string title;                  // a comment in the file; may be empty
};
std::string write_png(const PngPicture& picture);

}  // namespace partita::raster
