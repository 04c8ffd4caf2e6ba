// Reasons for people: the judge's violations and the planners' refusals as text. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "plan/reason.h"

namespace partita::decide {

// A headline, then one indented line each.
std::string reasons_text(const std::string& headline, const std::vector<plan::Reason>& reasons);

// What to say when the judge refuses what our own planner made: our bug. `what`: "planner 'exact'
// made a plan".
Error refused_by_judge(const std::string& what, const std::vector<plan::Reason>& violations);
bool is_refused_by_judge(const Error& error);

}  // namespace partita::decide
