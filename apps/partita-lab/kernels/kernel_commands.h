// The subcommands of `partita kernels` that have a file of their own.
#pragma once

#include <CLI/CLI.hpp>

#include "context.h"

namespace partita::cli {

Command add_kernels_plan(CLI::App& kernels);
Command add_kernels_verify(CLI::App& kernels);
Command add_kernels_simulate(CLI::App& kernels);
Command add_kernels_measure(CLI::App& kernels);
Command add_kernels_import(CLI::App& kernels);
Command add_kernels_run(CLI::App& kernels);

}  // namespace partita::cli
