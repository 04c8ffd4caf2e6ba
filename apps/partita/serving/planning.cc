#include "serving/planning.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/nearest.h"
#include "flags.h"
#include "progress.h"
#include "verify/serving.h"

namespace partita::cli {

std::vector<std::string> planner_names() {
  std::vector<std::string> names;
  for (const Planner& planner : planners::serving::planners()) names.push_back(planner.name);
  return names;
}

Result<const Planner*> find_planner(const std::string& flag, const std::string& name) {
  for (const Planner& planner : planners::serving::planners()) {
    if (planner.name == name) return &planner;
  }
  const std::vector<std::string> names = planner_names();
  return bad_input(flag, fmt::format("unknown planner '{}'{} (there are {})", name,
                                     did_you_mean(name, names), fmt::join(names, ", ")));
}

void add_node_budget(CLI::App& command, long& node_budget) {
  within(command.add_option("--node-budget", node_budget,
                            "Search nodes that a planner may spend; at the limit the gap to the "
                            "lower bound is stated"),
         1, 1e12)
      ->type_name("N")
      ->default_str(fmt::format("{}", node_budget));
}

Result<Outcome> make_plan(Context& context, const Planner& planner,
                          const plan::ServingProblem& problem, long node_budget) {
  Outcome outcome;
  {
    Progress progress(context);
    planners::serving::Options options;
    options.node_budget = node_budget;
    options.cpu_ms = [&context] { return static_cast<double>(context.clock.cpu_ns()) / 1e6; };
    options.progress = [&progress](const std::string& line) { progress.show(line); };
    outcome = planner.plan(problem, options);
  }
  if (!outcome.plan) return outcome;
  const std::vector<plan::Reason> violations = verify::verify(problem, *outcome.plan);
  if (violations.empty()) return outcome;
  return environment_error(
      "internal error",
      reasons_text(fmt::format("planner '{}' made a plan that the judge refuses; it is not shown. "
                               "Please report this with the input files.",
                               planner.name),
                   violations));
}

std::string reasons_text(const std::string& headline, const std::vector<plan::Reason>& reasons) {
  std::string text = headline;
  for (const plan::Reason& reason : reasons) text += "\n  " + plan::to_string(reason);
  return text;
}

}  // namespace partita::cli
