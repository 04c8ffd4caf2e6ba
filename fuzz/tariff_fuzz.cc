// Prices and carbon by the hour: figures that can be meant, at every hour that the file says and at
// none besides, or a refusal with its line.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "forms/tariff_reader.h"
#include "target.h"

FUZZ_TARGET(tariff) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tariff = partita::forms::parse_tariff("fuzz.csv", text);
  if (!tariff) {
    CHECK(tariff.error().context.starts_with("fuzz.csv"));
    return 0;
  }
  CHECK(!tariff->empty());
  const bool price = tariff->hours.front().price.has_value();
  double at_s = static_cast<double>(tariff->from_s) + 1;
  CHECK(tariff->daily || !partita::plan::rate_at(*tariff, at_s - 2));
  for (const auto& hour : tariff->hours) {
    CHECK(hour.price.has_value() == price && (price || hour.co2_g));
    CHECK(std::isfinite(partita::plan::weight(*tariff, hour)));
    CHECK(partita::plan::rate_at(*tariff, at_s) == hour);
    at_s += partita::plan::kHourS;
  }
  CHECK(tariff->daily || !partita::plan::rate_at(*tariff, at_s));
  return 0;
}
