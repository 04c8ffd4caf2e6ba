// What was decided while a gateway ran: choices or a refusal; what was read is printed and read
// back the same.
#include <cstdint>
#include <string_view>

#include "act/gateway_choices.h"
#include "base/check.h"
#include "target.h"

FUZZ_TARGET(gateway_choices) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto choices = partita::actuate::parse_choices("fuzz.json", text);
  if (!choices) {
    CHECK(choices.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again =
      partita::actuate::parse_choices("again.json", partita::actuate::choices_json(*choices));
  CHECK(again && *again == *choices);
  return 0;
}
