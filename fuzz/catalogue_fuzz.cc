// Catalogue files: a GPU model or a refusal; a model survives printing and reading, and its layouts
// can be listed.
#include <string_view>

#include "base/check.h"
#include "hw/catalogue.h"
#include "hw/layout.h"
#include "target.h"

FUZZ_TARGET(catalogue) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto gpu = partita::hw::parse_gpu_model("fuzz.json", text);
  if (!gpu) {
    CHECK(gpu.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = partita::hw::parse_gpu_model("again.json", partita::hw::gpu_model_json(*gpu));
  CHECK(again && *again == *gpu);
  for (const partita::hw::Layout& layout :
       partita::hw::maximal_layouts(*gpu, partita::hw::plain_profiles(*gpu))) {
    CHECK(partita::hw::conflicts(*gpu, layout).empty());
  }
  return 0;
}
