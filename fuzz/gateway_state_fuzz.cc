// What a gateway says of its workers: a state or a refusal; what was read is printed and read back
// the same.
#include <cstdint>
#include <string_view>

#include "act/gateway_state.h"
#include "base/check.h"
#include "target.h"

FUZZ_TARGET(gateway_state) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto state = partita::actuate::parse_gateway("fuzz.json", text);
  if (!state) {
    CHECK(state.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::actuate::parse_gateway("again.json", partita::actuate::gateway_json(*state));
  CHECK(again && *again == *state);
  return 0;
}
