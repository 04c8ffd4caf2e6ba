// The comparison of planners as a table and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "decide/comparison.h"

namespace partita::cli {

std::string comparison_text(const std::vector<decide::Standing>& standings,
                            const decide::CompareOptions& options);
std::string comparison_json(const std::vector<decide::Standing>& standings,
                            const decide::CompareOptions& options);

}  // namespace partita::cli
