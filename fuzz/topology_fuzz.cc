// Topology files: a topology within its limits, or a refusal with its line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "hw/topology.h"
#include "target.h"

FUZZ_TARGET(topology) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto topology = partita::hw::parse_topology("fuzz.json", text);
  if (!topology) {
    CHECK(topology.error().context.starts_with("fuzz.json"));
    return 0;
  }
  CHECK(topology->units() >= 1 && topology->units() <= partita::hw::kMaxUnits);
  CHECK(topology->clusters() >= 1 && topology->clusters() <= partita::hw::kMaxClusters);
  return 0;
}
