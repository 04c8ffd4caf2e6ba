// Telemetry logs: samples that physics allows, which read back bit for bit, or a refusal with its
// line.
#include <string_view>

#include "base/check.h"
#include "target.h"
#include "hw/telemetry/log.h"
#include "hw/telemetry/physics.h"

FUZZ_TARGET(telemetry_log) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto log = partita::telemetry::read_log(text, "fuzz.jsonl");
  if (!log) {
    CHECK(log.error().context.starts_with("fuzz.jsonl"));
    return 0;
  }
  std::string again;
  partita::telemetry::Continuity continuity;
  for (const partita::telemetry::Sample& sample : *log) {
    CHECK(continuity.fault_of(sample).empty());
    again += write_line(sample);
  }
  const auto reread = partita::telemetry::read_log(again, "again");
  CHECK(reread && *reread == *log);
  return 0;
}
