// The comparison of planners as a table and as JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "decide/comparison.h"

namespace partita::decide {

std::string comparison_text(const std::vector<Standing>& standings, const CompareOptions& options);
std::string comparison_json(const std::vector<Standing>& standings, const CompareOptions& options);

}  // namespace partita::decide
