// Documents EnergyModel and EnergyReport: read and written the same, or refused with the line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/energy/energy_forms.h"
#include "target.h"

FUZZ_TARGET(energy_model) {
  namespace energy = partita::energy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = energy::parse_model("fuzz.json", text);
  if (model) {
    const auto again = energy::parse_model("fuzz.json", energy::model_json(*model));
    CHECK(again && *again == *model);
  } else {
    CHECK(model.error().context.starts_with("fuzz.json"));
  }
  const auto report = energy::parse_report("fuzz.json", text);
  if (!report) return 0;
  const auto again = energy::parse_report("fuzz.json", energy::report_json(*report));
  CHECK(again && *again == *report);
  CHECK(!energy::report_text(*report).empty() && !energy::report_prometheus(*report).empty());
  return 0;
}
