// Triton's config.pbtxt: a configuration, or a refusal with its line.
#include <string_view>

#include "base/check.h"
#include "serve/worker/model_config.h"
#include "target.h"

FUZZ_TARGET(model_config) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = partita::serve::parse_model_config("fuzz", text);
  if (!config) CHECK(config.error().context.starts_with("fuzz:"));
  if (config) CHECK(!config->file.empty() && config->file.find('/') == std::string::npos);
  return 0;
}
