// The commands of partita-remote: one cmd_NAME.cc each. Every function adds its command and returns
// what to run when it was chosen.
#pragma once

#include "context.h"

namespace partita::cli {

Command add_remote(CLI::App& app);
Command add_ptx(CLI::App& app);

// Below `remote`.
Command add_remote_run(CLI::App& remote);
Command add_remote_doctor(CLI::App& remote);
Command add_remote_serve(CLI::App& remote);
Command add_remote_sessions(CLI::App& remote);
Command add_remote_stop(CLI::App& remote);
Command add_remote_tunnel(CLI::App& remote);
Command add_remote_trace(CLI::App& remote);
Command add_remote_operations(CLI::App& remote);

}  // namespace partita::cli
