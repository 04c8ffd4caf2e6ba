#include <CLI/CLI.hpp>
#include <memory>

#include "batch/batch_commands.h"
#include "flags.h"

namespace partita::cli {
namespace {

struct AgentBatchFlags {
  std::string number, why;
  Output output;
};

// What an agent was handed, it alone knows.
Command with_agent(CLI::App* command, std::shared_ptr<AgentBatchFlags> flags) {
  add_output(*command, flags->output, {"text", "json"});
  return {command, [flags](Context&) -> Result<Exit> {
            return bad_input("--server", "a running agent knows its batches: partita --server URL");
          }};
}

void add_number(CLI::App& command, AgentBatchFlags& flags) {
  command.add_option("BATCH", flags.number, "Its number, as `batch list` shows it")->required();
}

}  // namespace

Command add_batch_list(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand("list", "The batches that an agent was handed");
  command->footer("partita --server unix:/run/partita/api.sock batch list");
  return with_agent(command, std::make_shared<AgentBatchFlags>());
}

Command add_batch_show(CLI::App& batch) {
  CLI::App* command =
      batch.add_subcommand("show", "A batch that an agent was handed: which task is where");
  auto flags = std::make_shared<AgentBatchFlags>();
  add_number(*command, *flags);
  command->footer("partita --server unix:/run/partita/api.sock batch show 3");
  return with_agent(command, flags);
}

Command add_batch_cancel(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "cancel", "Stop a batch that an agent was handed; what has not begun never will");
  auto flags = std::make_shared<AgentBatchFlags>();
  add_number(*command, *flags);
  command->add_option("--why", flags->why, "The reason, for the history")->type_name("TEXT");
  command->footer("partita --server unix:/run/partita/api.sock batch cancel 3 --why 'wrong data'");
  return with_agent(command, flags);
}

}  // namespace partita::cli
