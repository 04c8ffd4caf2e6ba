// The device plugin's configuration: one or a refusal; what was read is written and read back as
// the same configuration.
#include <string_view>

#include "base/check.h"
#include "interop/device_plugin.h"
#include "target.h"

FUZZ_TARGET(device_plugin) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = partita::interop::parse_plugin_config("fuzz.yaml", text);
  if (!config) {
    CHECK(config.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  CHECK(!partita::interop::plugin_text(*config).empty());
  CHECK(!partita::interop::plugin_json(*config).empty());
  if (config->resources.empty()) return 0;
  const auto again =
      partita::interop::parse_plugin_config("again.yaml", partita::interop::plugin_yaml(*config));
  CHECK(again && *again == *config);
  return 0;
}
