// Services files: whatever the bytes, a list of services within the documented bounds or a refusal.
#include <cmath>
#include <set>
#include <string_view>

#include "base/check.h"
#include "forms/serving_forms.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto services = partita::forms::parse_services("fuzz.yaml", text);
  if (!services) {
    CHECK(services.error().context.starts_with("fuzz.yaml"));
    return 0;
  }
  std::set<std::string> names;
  for (const partita::plan::Service& service : *services) {
    CHECK(names.insert(service.name).second);
    CHECK(std::isfinite(service.rate.value) && service.rate.value > 0);
    CHECK(std::isfinite(service.slo.value) && service.slo.value > 0);
    CHECK(service.percentile > 0 && service.percentile < 100);
    CHECK(service.min_replicas >= 1 && service.line >= 1);
  }
  return 0;
}
