// Fleet files: lines within bounds or a refusal with its line. Also the words of flags: durations.
#include <string_view>

#include "base/check.h"
#include "decide/fleet.h"
#include "flags.h"
#include "target.h"

FUZZ_TARGET(fleet) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto duration = partita::cli::parse_duration("--duration", std::string(text));
  if (duration) CHECK(duration->value > 0 && *duration <= partita::cli::kMaxDuration);
  const auto lines = partita::decide::parse_fleet("fuzz.yaml", text);
  if (!lines) {
    CHECK(lines.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  CHECK(!lines->empty());
  for (const partita::decide::FleetLine& line : *lines) {
    CHECK(line.price > 0 && line.count.value_or(1) > 0 && line.line > 0);
  }
  return 0;
}
