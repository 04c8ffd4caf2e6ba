// mig-parted's checkpoint: a legal geometry or a refusal; what was read is written and read back as
// the same geometry.
#include <string_view>

#include "base/check.h"
#include "interop/checkpoint.h"
#include "target.h"

FUZZ_TARGET(checkpoint) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto boards =
      partita::interop::boards_of(*partita::hw::builtin_catalogue().find("A100-80GB"), 8);
  const auto geometry = partita::interop::parse_checkpoint("fuzz.json", text, boards);
  if (!geometry) {
    CHECK(geometry.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto written = partita::interop::checkpoint_json(*geometry);
  CHECK(written);
  const auto again = partita::interop::parse_checkpoint("again.json", *written, boards);
  CHECK(again && *again == *geometry);
  return 0;
}
