#include "commands.h"
#include "server/server.h"

namespace partita::cli {

Command add_batch(CLI::App& app) {
  CLI::App* batch = app.add_subcommand(
      "batch", "Schedule a queue of GPU jobs on MIG instances, so that the last one ends early");
  std::vector<Command> commands = {add_batch_schedule(*batch), add_batch_stream(*batch),
                                   add_batch_verify(*batch),   add_batch_compare(*batch),
                                   add_batch_simulate(*batch), add_batch_run(*batch),
                                   add_batch_generate(*batch)};
  for (Command& one : add_operations(*batch, "batch")) commands.push_back(std::move(one));
  batch->footer(
      "partita init --count 12 --scaling mixed --gpu A30 --seed 1 -o tasks.csv\n"
      "partita plan --tasks tasks.csv --gpu A30");
  return group_of(batch, commands);
}

}  // namespace partita::cli
