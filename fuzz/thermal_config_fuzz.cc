// Configurations and materials: a refusal has its line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/config.h"
#include "target.h"

FUZZ_TARGET(thermal_config) {
  namespace thermal = partita::thermal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = thermal::read_config("fuzz.config", text);
  if (!config) CHECK(config.error().context.starts_with("fuzz.config"));
  const auto materials = thermal::read_materials("fuzz.materials", text);
  if (!materials) {
    CHECK(materials.error().context.starts_with("fuzz.materials"));
    return 0;
  }
  for (const auto& [name, material] : *materials)
    CHECK(material.conductivity > 0 && material.capacity > 0 && material.viscosity >= 0);
  return 0;
}
