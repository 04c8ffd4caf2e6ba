// Native profile CSV: a table or a refusal with its line; a table survives printing and reading.
#include <string_view>

#include "base/check.h"
#include "profile/readers.h"
#include "target.h"

FUZZ_TARGET(native_csv) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = partita::profile::parse_native_csv("fuzz.csv", text);
  if (!table) {
    CHECK(table.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  const auto again =
      partita::profile::parse_native_csv("again.csv", partita::profile::native_csv(*table));
  CHECK(again && *again == *table);
  return 0;
}
