// Pictures: frames of finite numbers or a refusal; what was read survives the NPY form.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/raster/read.h"
#include "target.h"

FUZZ_TARGET(raster) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto frames = partita::raster::read_grids(bytes, "fuzz.img");
  if (!frames) {
    CHECK(frames.error().context.starts_with("fuzz.img"));
    return 0;
  }
  CHECK(!frames->empty());
  for (const partita::raster::Grid& grid : *frames) {
    CHECK(grid.rows == frames->front().rows && grid.cols == frames->front().cols);
    for (const double value : grid.values) CHECK(std::isfinite(value));
  }
  if (frames->front().values.size() > 4096) return 0;
  const auto again = partita::raster::read_grids(partita::raster::write_npy(*frames), "again.npy");
  CHECK(again && *again == *frames);
  return 0;
}
