// Costs of GPUs: rows within physics or a refusal with its line.
#include <string_view>

#include "base/check.h"
#include "decide/gpu_costs.h"
#include "target.h"

FUZZ_TARGET(gpu_costs) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto costs = partita::decide::parse_gpu_costs("fuzz.csv", text);
  if (!costs) {
    CHECK(costs.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  for (const partita::decide::GpuCost& cost : *costs) {
    CHECK(cost.price.value_or(1) > 0 && !cost.source.empty());
    if (cost.power)
      CHECK(cost.power->idle.value > 0 && cost.power->idle < cost.power->busy &&
            cost.power->off <= cost.power->idle);
  }
  return 0;
}
