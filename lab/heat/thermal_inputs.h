// Inputs of thermal models: HotSpot's files behind flags, as a chip, a network and powers. Refusals
// name the flag, or FILE:LINE.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"
#include "base/result.h"
#include "heat/network.h"
#include "heat/outputs.h"
#include "heat/ptrace.h"

namespace partita::thermal {

struct ThermalNames {
  std::string flp, config, lcf, materials, power;
  std::string grid;                   // "ROWS,COLS"; empty: the configuration's
  std::vector<std::string> settings;  // "key=value", over the configuration's
  bool hotspot_compat = false;
};

struct ThermalChip {
  thermal::Chip chip;
  thermal::Network network;
  std::vector<std::string> notes;  // what its owner may not have meant
};

// --package, or `standard` without it, with what --set and --grid change.
Result<thermal::PackageConfig> load_thermal_config(Files& files, const ThermalNames& names,
                                                   thermal::PackageConfig standard);

// Floorplan or layer file, configuration and materials as a network.
Result<ThermalChip> load_thermal_chip(Files& files, const ThermalNames& names);

struct ThermalPower {
  thermal::PowerTrace trace;
  std::vector<int> columns;  // of the trace, per block of the network
};

// --power, for the blocks of that chip.
Result<ThermalPower> load_thermal_power(Files& files, const ThermalNames& names,
                                        const thermal::Chip& chip);

// The temperatures of all nodes in the configuration's init_file, else its init_temp everywhere.
Result<std::vector<double>> load_thermal_start(Files& files, const ThermalNames& names,
                                               const ThermalChip& chip);

// "ROWS,COLS".
struct GridSize {
  int rows = 0, cols = 0;
};
Result<GridSize> parse_grid_size(const std::string& flag, const std::string& text);

}  // namespace partita::thermal
