#include <CLI/CLI.hpp>

#include "remote/remote_commands.h"

namespace partita::cli {

Command add_remote(CLI::App& app) {
  CLI::App* remote = app.add_subcommand(
      "remote", "Run CUDA programs on a GPU that is elsewhere, or on no GPU at all");
  const std::vector<Command> commands = {
      add_remote_run(*remote),      add_remote_doctor(*remote),     add_remote_serve(*remote),
      add_remote_sessions(*remote), add_remote_stop(*remote),       add_remote_tunnel(*remote),
      add_remote_trace(*remote),    add_remote_operations(*remote),
  };
  return group_of(remote, commands);
}

}  // namespace partita::cli
