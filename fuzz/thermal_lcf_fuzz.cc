// Layer files: layers with a thickness, or a refusal with its line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "heat/lcf.h"
#include "target.h"

FUZZ_TARGET(thermal_lcf) {
  namespace thermal = partita::thermal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto layers = thermal::read_lcf("fuzz.lcf", text);
  if (!layers) {
    CHECK(layers.error().context.starts_with("fuzz.lcf"));
    return 0;
  }
  CHECK(!layers->empty() && layers->size() <= thermal::kMostLayers);
  for (const auto& layer : *layers) {
    CHECK(layer.thickness > 0 && !layer.flp.empty());
    CHECK(layer.material.empty() == (layer.capacity > 0 && layer.resistivity > 0));
  }
  return 0;
}
