// ParvaGPU profile CSV: a profile or a refusal with its line; as a native CSV it says the same.
#include <string_view>

#include "base/check.h"
#include "profile/readers.h"
#include "target.h"

FUZZ_TARGET(parvagpu_csv) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto profile = partita::profile::parse_parvagpu_csv("fuzz.csv", "model", text);
  if (!profile) {
    CHECK(profile.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  if (profile->points.empty()) return 0;  // a native CSV has no way to name a model without points
  const partita::profile::ProfileTable table{{"model", *profile}};
  const auto again =
      partita::profile::parse_native_csv("again.csv", partita::profile::native_csv(table));
  CHECK(again && *again == table);
  return 0;
}
