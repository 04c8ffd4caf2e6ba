// DCGM's records: samples that physics allows, or a refusal with its line. The first byte chooses
// the form.
#include <string_view>

#include "base/check.h"
#include "target.h"
#include "hw/telemetry/dcgm.h"
#include "hw/telemetry/physics.h"

FUZZ_TARGET(dcgm) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool dmon = text.starts_with('d');
  if (!text.empty()) text.remove_prefix(1);
  const auto log = dmon ? partita::telemetry::read_dcgm_dmon(text, "fuzz.txt", {})
                        : partita::telemetry::read_dcgm_text(text, "fuzz.txt", {});
  if (!log) {
    CHECK(log.error().context.starts_with("fuzz.txt"));
    return 0;
  }
  partita::telemetry::Continuity continuity;
  for (const partita::telemetry::Sample& sample : *log) CHECK(continuity.fault_of(sample).empty());
  return 0;
}
