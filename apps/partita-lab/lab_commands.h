// The commands of partita-lab; see commands.h of partita.
#pragma once

#include <CLI/CLI.hpp>

#include "context.h"

namespace partita::cli {

Command add_mask(CLI::App& app);
Command add_kernels(CLI::App& app);
Command add_graph(CLI::App& app);
Command add_probe(CLI::App& app);
Command add_energy_models(CLI::App& app);
Command add_thermal(CLI::App& app);
Command add_floorplan(CLI::App& app);
Command add_demo_lab(CLI::App& app);

}  // namespace partita::cli
