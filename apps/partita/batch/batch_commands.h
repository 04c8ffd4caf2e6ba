// The subcommands of `partita batch`: one cmd_batch_NAME.cc each. Every function adds its
// subcommand and returns what to run when it was chosen.
#pragma once

#include "context.h"

namespace partita::cli {

Command add_batch_generate(CLI::App& batch);
Command add_batch_schedule(CLI::App& batch);
Command add_batch_stream(CLI::App& batch);
Command add_batch_verify(CLI::App& batch);
Command add_batch_compare(CLI::App& batch);
Command add_batch_simulate(CLI::App& batch);
Command add_batch_run(CLI::App& batch);

}  // namespace partita::cli
