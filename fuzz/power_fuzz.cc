// Response tables, power plans, and what a controller is told: a value that physics allows and that
// reads back equal, or a refusal with its line. A table that is read can be planned with.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "decide/power_seen.h"
#include "forms/power_forms.h"
#include "planners/power/response.h"
#include "target.h"

namespace {

void plan_with(const partita::plan::ResponseTable& table) {
  partita::plan::PowerProblem problem;
  problem.table = table;
  problem.promise = partita::plan::PowerPromise::execution;
  for (const auto& model : table.models)
    problem.services.push_back({model.model, model.model, {1}, model.points.front().p95, 95});
  for (const auto& service : partita::power::options_of(problem, partita::power::BatchChoice::any))
    for (const auto& at_clock : service)
      for (const auto& option : at_clock) {
        CHECK(option.capacity.value > 0);
        CHECK(option.busy.full().value >= 0 && std::isfinite(option.busy.full().value));
        CHECK(option.busy.at(option.capacity) <= option.busy.full() * (1 + 1e-9));
      }
}

}  // namespace

FUZZ_TARGET(power) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const partita::forms::TableOf gpu{"2x3", {3, 3}};
  const auto table = partita::forms::parse_power_table("fuzz.csv", text, gpu);
  if (table) {
    const auto again =
        partita::forms::parse_power_table("fuzz.csv", partita::forms::power_table_csv(*table), gpu);
    CHECK(again && *again == *table);
    if (text.size() < 10'000) plan_with(*table);
  } else {
    CHECK(table.error().context.starts_with("fuzz.csv"));
  }
  const std::vector<partita::plan::Terms> services{{"a", "m", {1}, {1}, 95},
                                                   {"b", "m", {1}, {1}, 95}};
  const auto seen = partita::decide::parse_power_seen("fuzz.json", text, services);
  CHECK(seen ? seen->size() == 2 : seen.error().context.starts_with("fuzz.json"));
  if (seen)
    for (const auto& one : *seen) CHECK(one.rate.value >= 0 && std::isfinite(one.rate.value));
  const auto plan = partita::forms::parse_power_plan("fuzz.json", text);
  if (plan) {
    const auto again =
        partita::forms::parse_power_plan("fuzz.json", partita::forms::power_plan_json(*plan));
    CHECK(again && *again == *plan);
  }
  return 0;
}
