// mig-parted's YAML: a file or a refusal; the layouts of every label are legal, are written, and
// are read back with the same counts.
#include <string_view>

#include "base/check.h"
#include "interop/mig_parted.h"
#include "target.h"

using partita::interop::Geometry;

FUZZ_TARGET(mig_parted) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto file = partita::interop::parse_mig_parted("fuzz.yaml", text);
  if (!file) {
    CHECK(file.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  const auto boards =
      partita::interop::boards_of(*partita::hw::builtin_catalogue().find("A100-80GB"), 4);
  for (const auto& label : file->labels) {
    const auto geometry = partita::interop::geometry_of(*file, label, boards);
    if (!geometry) {
      CHECK(geometry.error().context.starts_with("fuzz.yaml:"));
      continue;
    }
    if (geometry->gpus.empty()) continue;
    const auto written = partita::interop::mig_parted_yaml(*geometry, "again");
    CHECK(written);
    const auto again = partita::interop::parse_mig_parted("again.yaml", *written);
    CHECK(again);
    const auto same = partita::interop::geometry_of(*again, again->labels.front(), boards);
    CHECK(same && *same == *geometry);
  }
  return 0;
}
