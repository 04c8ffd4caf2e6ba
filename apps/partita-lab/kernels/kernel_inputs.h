// What the commands of `partita kernels`, `mask` and `probe` share.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "context.h"
#include "decide/kernel_inputs.h"

namespace partita::cli {

// Adds --atom: units that can only be masked together.
void add_atom_flag(CLI::App& command, int& atom);
// Adds --workers, --kernel-profiles, --topology and --atom.
void add_kernel_flags(CLI::App& command, decide::KernelNames& flags);
// Adds --configs: the numbers of units that a kernel may have.
void add_configs_flag(CLI::App& command, std::string& configs);
// Adds --switches: how often that number may change.
void add_switches_flag(CLI::App& command, int& switches);
Command add_kernels_run(CLI::App& kernels);

}  // namespace partita::cli
