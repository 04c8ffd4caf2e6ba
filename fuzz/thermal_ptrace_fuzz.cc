// Power traces: watts that are not negative, or a refusal with its line; its own names always find
// their columns unless one stands twice.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/ptrace.h"
#include "target.h"

FUZZ_TARGET(thermal_ptrace) {
  namespace thermal = partita::thermal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto trace = thermal::read_ptrace("fuzz.ptrace", text);
  if (!trace) {
    CHECK(trace.error().context.starts_with("fuzz.ptrace"));
    return 0;
  }
  for (const auto& row : trace->rows) {
    CHECK(row.size() == trace->names.size());
    for (const double watts : row) CHECK(watts >= 0 && watts <= thermal::kMostBlockWatts);
  }
  const auto columns = thermal::trace_columns(*trace, {trace->names});
  if (!columns) return 0;
  CHECK(thermal::mean_watts(*trace, *columns).size() == trace->names.size());
  CHECK(thermal::watts_of(trace->rows[0], *columns) == trace->rows[0]);
  return 0;
}
