#include <memory>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "commands.h"
#include "planners/batch/scheduler.h"
#include "planners/serving/planner.h"

namespace partita::cli {
namespace {

Result<Exit> run_planners(Context& context, const Output& output) {
  nlohmann::ordered_json document{{"api_version", "partita/v1"}, {"kind", "Planners"}};
  Table planners{{"PLANNER", "WHAT IT DOES", "SLO RULE", "SOURCE"}, {}};
  for (const auto& planner : planners::serving::planners()) {
    const std::string rule =
        planner.own_rule ? plan::to_string(*planner.own_rule) : std::string("any");
    document["planners"].push_back({{"name", planner.name},
                                    {"summary", planner.summary},
                                    {"source", planner.source},
                                    {"slo_rule", rule}});
    planners.rows.push_back({planner.name, planner.summary, rule, planner.source});
  }
  Table schedulers{{"SCHEDULER", "WHAT IT DOES", "SOURCE"}, {}};
  for (const auto& scheduler : planners::batch::schedulers()) {
    document["schedulers"].push_back({{"name", scheduler.name},
                                      {"arguments", scheduler.arguments},
                                      {"summary", scheduler.summary},
                                      {"source", scheduler.source}});
    const std::string arguments = scheduler.arguments.empty() ? "" : ":" + scheduler.arguments;
    schedulers.rows.push_back({scheduler.name + arguments, scheduler.summary, scheduler.source});
  }
  const std::string text = "Of services:\n\n" + to_string(planners) +
                           "\nOf batches of tasks:\n\n" + to_string(schedulers);
  return finish(context, output, output.json() ? document.dump(2) + "\n" : text);
}

}  // namespace

Command add_planners(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "planners", "List the planners of services and the schedulers of batches, with sources");
  auto output = std::make_shared<Output>();
  add_output(*command, *output, {"text", "json"});
  command->footer("partita planners");
  return {command, [output](Context& context) { return run_planners(context, *output); }};
}

}  // namespace partita::cli
