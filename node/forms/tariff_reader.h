// Reader of prices and carbon by the hour (plan/tariff.h): CSV with the column `hour` and one or
// both of `price_per_kwh` and `co2_g_per_kwh`.
// `hour` is when it begins: 2026-11-27T13:00Z or 2026-11-27T13:00+01:00, one row an hour without
// gaps; or 13:00Z or 13:00+01:00, 24 rows in their order, a day that comes again. The distance to
// UTC has to be said, so an hour that a local clock shows twice in autumn is two rows, and the one
// that it leaves out in spring is none; a day that comes again has one distance, summer and winter.
// Limits: plan::kMostTariffHours rows.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "plan/tariff.h"

namespace partita::forms {

// Refused with FILE:LINE: an hour without its distance to UTC, a gap, an hour twice, an empty cell.
Result<plan::Tariff> parse_tariff(const std::string& file, std::string_view text);

}  // namespace partita::forms
