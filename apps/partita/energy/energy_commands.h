// The subcommands of `partita energy` that have a file of their own.
#pragma once

#include <CLI/CLI.hpp>

#include "context.h"

namespace partita::cli {

Command add_energy_attribute(CLI::App& energy);

}  // namespace partita::cli
