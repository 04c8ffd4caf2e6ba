#include "heat/raster/read.h"

#include "heat/raster/npy.h"
#include "heat/raster/pgm.h"
#include "heat/raster/png_file.h"

namespace partita::raster {

Result<std::vector<Grid>> read_grids(std::string_view bytes, const std::string& name) {
  if (bytes.starts_with("P2") || bytes.starts_with("P5")) return read_pgm(bytes, name);
  if (bytes.starts_with("\x93NUMPY")) return read_npy(bytes, name);
  if (bytes.starts_with("\x89PNG")) {
    auto grid = TRY(read_png(bytes, name));
    std::vector<Grid> frames;
    frames.push_back(std::move(grid));
    return frames;
  }
  return bad_input(name, "neither PGM (P2, P5) nor PNG nor NPY");
}

}  // namespace partita::raster
