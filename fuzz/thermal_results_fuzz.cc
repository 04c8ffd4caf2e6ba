// Temperatures as HotSpot writes them: of blocks, of cells, over time. What was read is written and
// read back.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/outputs.h"
#include "target.h"

FUZZ_TARGET(thermal_results) {
  namespace thermal = partita::thermal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = thermal::read_steady("fuzz.steady", text);
  if (!lines) {
    CHECK(lines.error().context.starts_with("fuzz.steady"));
  } else {
    const auto again = thermal::read_steady("again", thermal::write_steady(*lines));
    CHECK(again && again->size() == lines->size());
  }
  const auto grid = thermal::read_grid_steady("fuzz.grid", text);
  CHECK(grid || grid.error().context.starts_with("fuzz.grid"));
  const auto trace = thermal::read_ttrace("fuzz.ttrace", text);
  if (!trace) {
    CHECK(trace.error().context.starts_with("fuzz.ttrace"));
    return 0;
  }
  const auto again = thermal::read_ttrace("again", thermal::write_ttrace(*trace));
  CHECK(again && again->names == trace->names && again->rows.size() == trace->rows.size());
  return 0;
}
