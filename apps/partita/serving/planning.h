// Planning as every command does it: choose a planner by name, run it with the process's CPU clock,
// and let the judge pass its plan before anyone sees it. Also the forms of reasons that commands
// share.
#pragma once

#include <string>
#include <vector>

#include "context.h"
#include "plan/reason.h"
#include "planners/serving/planner.h"

namespace partita::cli {

using planners::serving::Outcome;
using planners::serving::Planner;

// The names of all planners, in listing order.
std::vector<std::string> planner_names();

// The planner with this name; the refusal names `flag` and the nearest planner.
Result<const Planner*> find_planner(const std::string& flag, const std::string& name);

// Adds --node-budget.
void add_node_budget(CLI::App& command, long& node_budget);

// Runs a planner and the judge. A plan that the judge refuses is our bug and comes back as an Error
// that lists why.
Result<Outcome> make_plan(Context& context, const Planner& planner,
                          const plan::ServingProblem& problem, long node_budget);

// Reasons for people: a headline, then one indented line each.
std::string reasons_text(const std::string& headline, const std::vector<plan::Reason>& reasons);

}  // namespace partita::cli
