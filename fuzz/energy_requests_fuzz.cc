// Counts of requests, as CSV or as the gateway's metrics: no count is negative.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "decide/energy.h"
#include "target.h"

FUZZ_TARGET(energy_requests) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto counts = partita::decide::parse_requests("fuzz.csv", text, {0}, {3600});
  if (!counts) {
    CHECK(counts.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  for (const auto& [service, count] : *counts) CHECK(count >= 0);
  return 0;
}
