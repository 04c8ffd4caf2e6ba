// Traces of traffic: ascending times or counts that can be played, or a refusal with its line.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "forms/traffic_forms.h"
#include "plan/arrivals.h"
#include "target.h"

namespace {

void play(const partita::plan::TrafficTrace& trace) {
  CHECK(trace.times_s.empty() != trace.per_minute.empty());
  CHECK(std::isfinite(trace.mean().value) && trace.mean().value > 0);
  double before = 0;
  for (const double time : trace.times_s) {
    CHECK(std::isfinite(time) && time >= before);
    before = time;
  }
  for (const double count : trace.per_minute) CHECK(std::isfinite(count) && count >= 0);
  const auto shared = std::make_shared<const partita::plan::TrafficTrace>(trace);
  auto source = partita::plan::ArrivalSource::of(partita::plan::TraceArrivals{"", "", shared},
                                                 trace.mean(), partita::Rng(1));
  partita::plan::Nanos last = 0;
  for (int i = 0; i < 8; ++i) {
    const partita::plan::Nanos next = source.next();
    CHECK(next >= last);
    last = next;
  }
}

}  // namespace

FUZZ_TARGET(traffic_trace) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const partita::forms::TraceRows& rows :
       {partita::forms::TraceRows{"f1", true}, partita::forms::TraceRows{"f2", false}}) {
    const auto trace = partita::forms::parse_traffic_trace("fuzz.csv", text, rows);
    if (trace) {
      play(*trace);
    } else {
      CHECK(trace.error().context.starts_with("fuzz.csv"));
    }
  }
  return 0;
}
