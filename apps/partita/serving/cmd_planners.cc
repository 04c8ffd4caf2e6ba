#include <memory>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "commands.h"
#include "planners/serving/planner.h"

namespace partita::cli {
namespace {

constexpr char kElsewhere[] =
    "\nBatches of tasks have schedulers instead: partita batch schedulers\n";

Result<Exit> run_planners(Context& context, const Output& output) {
  nlohmann::ordered_json document{{"api_version", "partita/v1"}, {"kind", "Planners"}};
  document["planners"] = nlohmann::ordered_json::array();
  Table table{{"PLANNER", "WHAT IT DOES", "SLO RULE", "SOURCE"}, {}};
  for (const auto& planner : planners::serving::planners()) {
    const std::string rule =
        planner.own_rule ? plan::to_string(*planner.own_rule) : std::string("any");
    document["planners"].push_back({{"name", planner.name},
                                    {"summary", planner.summary},
                                    {"source", planner.source},
                                    {"slo_rule", rule}});
    table.rows.push_back({planner.name, planner.summary, rule, planner.source});
  }
  const std::string content =
      output.format == "json" ? document.dump(2) + "\n" : to_string(table) + kElsewhere;
  return finish(context, output, content);
}

}  // namespace

Command add_planners(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("planners", "List the planners of services with their sources");
  auto output = std::make_shared<Output>();
  add_output(*command, *output, {"text", "json"});
  command->footer("partita planners\npartita batch schedulers");
  return {command, [output](Context& context) { return run_planners(context, *output); }};
}

}  // namespace partita::cli
