// The flags that name the inputs of `partita mask` and `partita kernels`.
#pragma once

#include <string>

#include "decide/kernel_inputs.h"

namespace CLI {
class App;
}

namespace partita::cli {

// Adds --atom: units that can only be masked together.
void add_atom_flag(CLI::App& command, int& atom);
// Adds --profiles.
void add_profiles_flag(CLI::App& command, decide::KernelNames& flags);
// Adds --workers, --profiles, --gpu and --atom.
void add_kernel_flags(CLI::App& command, decide::KernelNames& flags);
// Adds --configs: the numbers of units that a kernel may have.
void add_configs_flag(CLI::App& command, std::string& configs);
// Adds --switches: how often that number may change.
void add_switches_flag(CLI::App& command, int& switches);

}  // namespace partita::cli
