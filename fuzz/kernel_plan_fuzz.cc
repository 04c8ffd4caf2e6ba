// Kernel plans as `kernels simulate` reads them: units within the GPU, or a refusal with its file.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "decide/kernel_inputs.h"
#include "target.h"

FUZZ_TARGET(kernel_plan) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = partita::forms::parse_kernel_plan("fuzz.json", text);
  if (!plan) {
    CHECK(plan.error().context.starts_with("fuzz.json"));
    return 0;
  }
  for (const std::vector<int>& worker : partita::decide::planned_units(*plan).units)
    for (const int units : worker) CHECK(units >= 1 && units <= partita::hw::kMaxUnits);
  return 0;
}
