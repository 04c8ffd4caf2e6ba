// Performance laws: laws or a refusal; they survive printing and reading, and their tables hold
// sane points only.
#include <cmath>
#include <string_view>

#include "base/check.h"
#include "hw/catalogue.h"
#include "profile/law.h"
#include "target.h"

FUZZ_TARGET(laws) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto laws = partita::profile::parse_laws("fuzz.json", text);
  if (!laws) {
    CHECK(laws.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = partita::profile::parse_laws("again.json", partita::profile::laws_json(*laws));
  CHECK(again && *again == *laws);
  const partita::hw::GpuModel* gpu = partita::hw::builtin_catalogue().find("A100-80GB");
  CHECK(gpu != nullptr);
  const auto table = partita::profile::table_from_laws(*laws, *gpu);
  if (!table) return 0;
  for (const auto& [model, workload] : *table) {
    for (const partita::profile::ProfilePoint& point : workload.points) {
      CHECK(std::isfinite(point.throughput.value) && point.throughput.value > 0);
      CHECK(std::isfinite(point.latency.value) && point.latency.value > 0);
    }
  }
  return 0;
}
