// Plans of power, and policies compared, for people: texts, JSON, a picture. Pure.
#pragma once

#include <string>
#include <vector>

#include "decide/power.h"

namespace partita::decide {

std::string power_plan_text(const plan::PowerProblem& problem, const plan::PowerPlan& plan);

// A service alone, or all together.
struct PowerCase {
  std::string name;
  plan::PowerProblem problem;
  plan::PowerTrace trace;
  std::vector<PowerOutcome> outcomes;
};

// Whether every service keeps its SLO under every policy.
bool all_held(const PowerCase& one);

// A table of services and policies; of several cases also the policies over all of them, watts
// relative to the first policy as a geometric mean. `poll`: as it was written.
std::string power_cases_text(const std::vector<PowerCase>& cases, const PowerComparison& how,
                             const std::string& poll);
std::string power_cases_json(const std::vector<PowerCase>& cases, const PowerComparison& how);
// Power over time.
std::string power_case_svg(const PowerCase& one, const PowerComparison& how);

}  // namespace partita::decide
