// HotSpot's configuration: package and environment, with HotSpot's names and its defaults. Lengths
// in metres, temperatures in kelvin, conductivities in W/(m K), capacities in J/(m^3 K).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace partita::thermal {

// How a grid's cells become a block's temperature.
enum class MapMode { avg, min, max, center };

struct PackageConfig {
  double t_chip = 0.00015, k_chip = 100, p_chip = 1.75e6;
  double c_convec = 140.4, r_convec = 0.1;
  double s_sink = 0.06, t_sink = 0.0069, k_sink = 400, p_sink = 3.55e6;
  double s_spreader = 0.03, t_spreader = 0.001, k_spreader = 400, p_spreader = 3.55e6;
  double t_interface = 2e-5, k_interface = 4, p_interface = 4e6;
  bool model_secondary = false;
  double r_convec_sec = 1, c_convec_sec = 140.4;
  double t_metal = 1e-5, t_c4 = 1e-4;
  double s_sub = 0.021, t_sub = 0.001;
  double s_solder = 0.021, t_solder = 0.00094;
  double s_pcb = 0.1, t_pcb = 0.002;
  double ambient = 318.15, init_temp = 333.15;
  std::string init_file, grid_layer_file, materials_file;  // as written; empty: none
  std::string steady_file, grid_steady_file, grid_transient_file;
  double sampling_intvl = 3.333e-6;
  int grid_rows = 64, grid_cols = 64;
  MapMode grid_map_mode = MapMode::avg;
  bool block_model = false;  // model_type block; the grid answers all the same
  bool detailed_3d = false;
  std::string material_chip, material_sink, material_spreader, material_interface;
  std::vector<std::string> other_tools;  // keys that stood there and are none of the simulator's
  bool operator==(const PackageConfig&) const = default;
};

// What a material is made of, from a materials file.
struct Material {
  bool fluid = false;
  double conductivity = 0, capacity = 0, viscosity = 0;
  bool operator==(const Material&) const = default;
};
using Materials = std::map<std::string, Material>;

// HotSpot's materials: name, solid or fluid, conductivity, capacity and, of fluids, viscosity, a
// line each. Refused with FILE:LINE.
Result<Materials> read_materials(const std::string& file, std::string_view text);

// `-key value` a line; `(null)` is nothing. Keys that only HotSpot's other models know are let
// pass, those of its floorplanner are kept by name. Refused with FILE:LINE: unknown keys, keys that
// stand twice, numbers that physics does not allow (millimetres given as metres, degrees Celsius as
// kelvin), and what we do not model when it is switched on: leakage, natural convection,
// microchannels.
Result<PackageConfig> read_config(const std::string& file, std::string_view text);
// One more `key value`, of the command line; `where` names it in refusals.
Result<void> set_config(PackageConfig& config, const std::string& where, std::string_view key,
                        std::string_view value);
// material_chip and the like in the place of k_chip and p_chip. Refused: unknown ones, fluids.
Result<void> use_materials(PackageConfig& config, const Materials& materials);

}  // namespace partita::thermal
