#include "kernels/kernel_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "decide/kernel_planning.h"
#include "flags.h"

namespace partita::cli {

void add_profiles_flag(CLI::App& command, decide::KernelNames& flags) {
  command
      .add_option("--profiles", flags.profiles,
                  "Directory with NAME.csv (kernel,units,time_us and optional index), or REEF's "
                  "NAME.json and NAME.profile.json, per worker")
      ->required()
      ->type_name("DIR");
}

void add_kernel_flags(CLI::App& command, decide::KernelNames& flags) {
  command
      .add_option("--workers", flags.workers,
                  "The co-located models, separated by commas; repeat a name for several workers "
                  "of one model")
      ->required()
      ->type_name("NAMES");
  add_profiles_flag(command, flags);
  command.add_option("--gpu", flags.gpu, kTopologyHelp)
      ->type_name("TOPOLOGY")
      ->default_str(flags.gpu);
  add_atom_flag(command, flags.atom);
}

void add_atom_flag(CLI::App& command, int& atom) {
  within(command.add_option("--atom", atom,
                            "Units that are always masked together; default: the GPU's, 8 on H100 "
                            "and H200 (2 without co-scheduling), 2 on A100, 1 on AMD"),
         1, hw::kMaxUnits)
      ->type_name("N");
}

void add_configs_flag(CLI::App& command, std::string& configs) {
  command
      .add_option("--configs", configs,
                  "Numbers of units that a kernel may have, ascending (default: a quarter, half, "
                  "three quarters and all of the GPU, in whole atoms)")
      ->type_name("N,N,...")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("give numbers") : std::string{};
      });
}

void add_switches_flag(CLI::App& command, int& switches) {
  within(command.add_option("--switches", switches,
                            "How often the number of units may change within a request of a "
                            "worker"),
         0, decide::kMaxSwitches)
      ->type_name("N")
      ->default_str(fmt::format("{}", switches));
}

}  // namespace partita::cli
