// PTX: a module or a refusal with its line; a module's text reads back as the same module.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ptx/parse.h"
#include "ptx/testing/equal_modules.h"
#include "target.h"

FUZZ_TARGET(ptx_parse) {
  namespace ptx = partita::ptx;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto module = ptx::parse(text, "fuzz.ptx");
  if (!module) {
    CHECK(module.error().context.starts_with("fuzz.ptx:"));
    return 0;
  }
  const auto again = ptx::parse(ptx::to_text(*module), "again.ptx");
  CHECK(again.has_value());
  CHECK(ptx::without_lines(*again) == ptx::without_lines(*module));
  return 0;
}
