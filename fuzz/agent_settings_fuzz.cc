// Settings of an agent: a policy or a refusal; what was read is printed and read back the same.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "control/settings.h"
#include "target.h"

FUZZ_TARGET(agent_settings) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto settings = partita::control::parse_settings("fuzz.yaml", text);
  if (!settings) {
    CHECK(settings.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  const auto again =
      partita::control::parse_settings("again.json", partita::control::settings_json(*settings));
  CHECK(again && *again == *settings);
  return 0;
}
