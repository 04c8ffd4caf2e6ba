// Counters as CSV: a table or a refusal with its line; every number is within physics, and what
// was read can be fitted or is refused.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/energy/fit.h"
#include "target.h"

FUZZ_TARGET(energy_counters) {
  namespace energy = partita::energy;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto components = energy::parse_component_columns("fuzz.yaml", text);
  if (!components) CHECK(components.error().context.starts_with("fuzz.yaml"));
  const auto table = energy::parse_counters("fuzz.csv", text, {});
  if (!table) {
    CHECK(table.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  for (const energy::CounterRow& row : table->rows) {
    CHECK(row.measured > 0 && row.accesses.size() == table->components.size());
    for (const double accesses : row.accesses) CHECK(accesses >= 0 && std::isfinite(accesses));
  }
  if (table->rows.size() > 50 || table->components.size() > 10) return 0;  // slow, not new
  energy::FitOptions options;
  options.loss = partita::numeric::Loss::huber;
  const auto model = energy::fit(*table, options);
  if (!model) return 0;
  for (const energy::ComponentCost& cost : model->components) CHECK(cost.joules >= 0);
  return 0;
}
