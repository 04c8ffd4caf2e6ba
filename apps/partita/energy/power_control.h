// The subcommands of `partita power` that set clocks and limits of real GPUs.
#pragma once

#include <CLI/CLI.hpp>

#include "context.h"

namespace partita::cli {

Command add_power_set(CLI::App& power);
Command add_power_restore(CLI::App& power);
Command add_power_run(CLI::App& power);

}  // namespace partita::cli
