// The state of an agent: a snapshot or a refusal; what was read is printed and read back the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "control/snapshot.h"
#include "target.h"

FUZZ_TARGET(agent_state) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto state = partita::control::parse_snapshot("fuzz.json", text);
  if (!state) {
    CHECK(state.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::control::parse_snapshot("again.json", partita::control::snapshot_json(*state));
  CHECK(again && *again == *state);
  return 0;
}
