// Plan JSON: a plan or a refusal; what was read is printed and read back as the same plan, and
// every picture of it can be drawn.
#include <string_view>

#include "base/check.h"
#include "forms/serving_forms.h"
#include "target.h"

FUZZ_TARGET(plan) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = partita::forms::parse_plan("fuzz.json", text);
  if (!plan) {
    CHECK(plan.error().context.starts_with("fuzz.json"));
    return 0;
  }
  const auto again = partita::forms::parse_plan("again.json", partita::forms::plan_json(*plan));
  CHECK(again && *again == *plan);
  const partita::hw::Catalogue& catalogue = partita::hw::builtin_catalogue();
  CHECK(!partita::forms::plan_text(*plan, catalogue, {}).empty());
  CHECK(!partita::forms::plan_svg(*plan, catalogue).empty());
  return 0;
}
