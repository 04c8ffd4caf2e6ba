// Kernel profiles as CSV: a model or a refusal with its line.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "profile/kernel_profile.h"
#include "target.h"

FUZZ_TARGET(kernel_csv) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = partita::profile::parse_kernel_csv("fuzz.csv", text, 60);
  if (!model) {
    CHECK(model.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  for (const auto& kernel : model->kernels) {
    CHECK(kernel.time_us.size() == 60);
    for (const double time : kernel.time_us) CHECK(time > 0);
  }
  return 0;
}
