// Arrival traces: ascending times per service or a refusal with its line.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "sim/serving.h"
#include "target.h"

FUZZ_TARGET(trace) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto traces = partita::sim::parse_trace("fuzz.csv", text);
  if (!traces) {
    CHECK(traces.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  for (const partita::sim::Trace& trace : *traces) {
    double before = 0;
    for (const double time : trace.times_s) {
      CHECK(std::isfinite(time) && time >= before);
      before = time;
    }
  }
  return 0;
}
