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
  bool operator==(const PackageConfig&) const = default;
};

}  // namespace partita::thermal
