// Tables of other profilers: what is taken in is a profile that our own reader takes back.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profile/readers.h"
#include "serve/measure/imports.h"
#include "target.h"

namespace partita::serve {
namespace {

void check_table(std::string_view text) {
  for (const ForeignForm form : {ForeignForm::perf_analyzer, ForeignForm::model_analyzer}) {
    const bool named = form == ForeignForm::perf_analyzer;
    const auto table = import_foreign(
        form, "fuzz", text,
        {.gpcs = 2, .batch = 4, .model = named ? std::optional<std::string>("m") : std::nullopt});
    if (!table) {
      CHECK(!table.error().message.empty());
      continue;
    }
    const auto again = partita::profile::parse_native_csv("again", native_csv(*table));
    CHECK(again && *again == *table);
  }
}

}  // namespace
}  // namespace partita::serve

FUZZ_TARGET(imports) {
  partita::serve::check_table({reinterpret_cast<const char*>(data), size});
  return 0;
}
