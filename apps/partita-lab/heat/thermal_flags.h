// What the subcommands of `partita thermal` share: the flags that name a chip and its powers, and
// outlines of blocks for heat maps.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "context.h"
#include "heat/thermal_inputs.h"
#include "heat/raster/heat_map.h"

namespace partita::cli {

// --flp, --lcf, --config, --materials, --grid, --set, --hotspot-compat; --power too.
void add_thermal_flags(CLI::App& command, thermal::ThermalNames& names);

// Says what the chip's owner may not have meant.
void note_thermal(Context& context, const std::vector<std::string>& notes);

// Blocks as outlines of a map over the die.
std::vector<raster::Outline> outlines_of(const thermal::Floorplan& plan);

// The subcommands that have a file of their own.
Command add_thermal_transient(CLI::App& thermal);
Command add_thermal_compare(CLI::App& thermal);
Command add_thermal_forecast(CLI::App& thermal);
Command add_thermal_dtm(CLI::App& thermal);

}  // namespace partita::cli
