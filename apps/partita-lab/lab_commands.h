// The commands of partita-lab; see commands.h of partita.
#pragma once

#include "command.h"
#include "heat/raster/heat_map.h"
#include "heat/thermal_inputs.h"

namespace partita::cli {

using Adds = Command(CLI::App& app);
Adds add_mask, add_kernels, add_graph, add_probe, add_energy_models, add_thermal, add_floorplan,
    add_demo_lab;

// Blocks as outlines of a map over the die.
std::vector<raster::Outline> outlines_of(const thermal::Floorplan& plan);

}  // namespace partita::cli
