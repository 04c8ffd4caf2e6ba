// State of a node: a state or a refusal; what was read is printed and read back as the same state,
// and it can be drawn.
#include <string_view>

#include "base/check.h"
#include "device/node_forms.h"
#include "target.h"

FUZZ_TARGET(state) {
  namespace device = partita::device;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = device::parse_state("fuzz.json", text);
  if (!read) {
    CHECK(read.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      device::parse_state("again.json", device::state_json(read->state, read->occupants));
  CHECK(again && again->state == read->state && again->occupants == read->occupants);
  const auto& catalogue = partita::hw::builtin_catalogue();
  CHECK(!device::state_text(read->state, read->occupants, catalogue, {}).empty());
  return 0;
}
