#include <memory>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "batch/batch_commands.h"
#include "commands.h"
#include "planners/batch/scheduler.h"

namespace partita::cli {
namespace {

Result<Exit> run_batch_schedulers(Context& context, const Output& output) {
  nlohmann::ordered_json document{{"api_version", "partita/v1"}, {"kind", "Schedulers"}};
  document["schedulers"] = nlohmann::ordered_json::array();
  Table table{{"SCHEDULER", "WHAT IT DOES", "SOURCE"}, {}};
  for (const auto& scheduler : planners::batch::schedulers()) {
    document["schedulers"].push_back({{"name", scheduler.name},
                                      {"arguments", scheduler.arguments},
                                      {"summary", scheduler.summary},
                                      {"source", scheduler.source}});
    const std::string arguments = scheduler.arguments.empty() ? "" : ":" + scheduler.arguments;
    table.rows.push_back({scheduler.name + arguments, scheduler.summary, scheduler.source});
  }
  const std::string content = output.format == "json" ? document.dump(2) + "\n" : to_string(table);
  return finish(context, output, content);
}

}  // namespace

Command add_batch_schedulers(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand("schedulers", "List the schedulers with their sources");
  auto output = std::make_shared<Output>();
  add_output(*command, *output, {"text", "json"});
  return {command, [output](Context& context) { return run_batch_schedulers(context, *output); }};
}

}  // namespace partita::cli
