// What a controller of power is told between two polls, and tells: JSON files that whoever counts
// requests writes and whoever holds the services' masks reads.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/power.h"

namespace partita::decide {

// `services: [{name, rate_rps, p95_ms, waiting}]`, in the order of `services`. Others may be there;
// one of these that is missing or named twice is refused.
Result<std::vector<plan::ServiceSeen>> parse_power_seen(const std::string& file,
                                                        std::string_view text,
                                                        const std::vector<plan::Terms>& services);

// `services: [{name, units, percent, batch}]`: percent of `all_units`, rounded up.
std::string power_shares_json(const std::vector<plan::Terms>& services, int all_units,
                              const plan::Setting& setting);

}  // namespace partita::decide
