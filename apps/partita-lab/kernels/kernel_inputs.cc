#include "kernels/kernel_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "decide/kernel_planning.h"
#include "flags.h"

namespace partita::cli {

void add_profiles_flag(CLI::App& command, decide::KernelNames& flags) {
  flag(command, "--kernel-profiles", flags.profiles)->required();
}

void add_kernel_flags(CLI::App& command, decide::KernelNames& flags) {
  flag(command, "--workers", flags.workers)->required();
  add_profiles_flag(command, flags);
  flag(command, "--topology", flags.gpu)->default_str(flags.gpu);
  add_atom_flag(command, flags.atom);
}

void add_atom_flag(CLI::App& command, int& atom) {
  within(flag(command, "--atom", atom), 1, hw::kMaxUnits);
}

void add_configs_flag(CLI::App& command, std::string& configs) {
  flag(command, "--configs", configs)->check([](const std::string& text) {
    return text.empty() ? std::string("give numbers") : std::string{};
  });
}

void add_switches_flag(CLI::App& command, int& switches) {
  within(flag(command, "--switches", switches), 0, decide::kMaxSwitches)
      ->default_str(fmt::format("{}", switches));
}

}  // namespace partita::cli
