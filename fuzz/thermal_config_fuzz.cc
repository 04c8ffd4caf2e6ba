// Configurations and materials: what was read is written and read back the same; a refusal has its
// line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/config.h"
#include "target.h"

FUZZ_TARGET(thermal_config) {
  namespace thermal = partita::thermal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = thermal::read_config("fuzz.config", text);
  if (!config) {
    CHECK(config.error().context.starts_with("fuzz.config"));
  } else {
    const auto again = thermal::read_config("again.config", thermal::write_config(*config));
    CHECK(again && *again == *config);
  }
  const auto materials = thermal::read_materials("fuzz.materials", text);
  if (!materials) {
    CHECK(materials.error().context.starts_with("fuzz.materials"));
    return 0;
  }
  for (const auto& [name, material] : *materials)
    CHECK(material.conductivity > 0 && material.capacity > 0 && material.viscosity >= 0);
  return 0;
}
