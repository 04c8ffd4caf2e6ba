#include "heat/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/nearest.h"
#include "heat/text_lines.h"

namespace partita::thermal {
namespace {

constexpr const char* kThick = "metres are wanted, are these millimetres?";
constexpr const char* kKelvin = "kelvin are wanted, are these degrees Celsius?";
constexpr int kMostCells = 2048;

struct NumberKey {
  const char* name;
  double PackageConfig::*value;
  double least, most;
  const char* hint;
};

constexpr NumberKey kNumbers[] = {
    {"t_chip", &PackageConfig::t_chip, 1e-7, 0.01, kThick},
    {"k_chip", &PackageConfig::k_chip, 1e-3, 1e4, "W/(m K)"},
    {"p_chip", &PackageConfig::p_chip, 1e3, 1e8, "J/(m^3 K)"},
    {"c_convec", &PackageConfig::c_convec, 0, 1e7, "J/K"},
    {"r_convec", &PackageConfig::r_convec, 1e-6, 1e6, "K/W"},
    {"s_sink", &PackageConfig::s_sink, 1e-4, 2, kThick},
    {"t_sink", &PackageConfig::t_sink, 1e-7, 0.5, kThick},
    {"k_sink", &PackageConfig::k_sink, 1e-3, 1e4, "W/(m K)"},
    {"p_sink", &PackageConfig::p_sink, 1e3, 1e8, "J/(m^3 K)"},
    {"s_spreader", &PackageConfig::s_spreader, 1e-4, 2, kThick},
    {"t_spreader", &PackageConfig::t_spreader, 1e-7, 0.1, kThick},
    {"k_spreader", &PackageConfig::k_spreader, 1e-3, 1e4, "W/(m K)"},
    {"p_spreader", &PackageConfig::p_spreader, 1e3, 1e8, "J/(m^3 K)"},
    {"t_interface", &PackageConfig::t_interface, 1e-8, 0.01, kThick},
    {"k_interface", &PackageConfig::k_interface, 1e-3, 1e4, "W/(m K)"},
    {"p_interface", &PackageConfig::p_interface, 1e3, 1e8, "J/(m^3 K)"},
    {"r_convec_sec", &PackageConfig::r_convec_sec, 1e-6, 1e9, "K/W"},
    {"c_convec_sec", &PackageConfig::c_convec_sec, 0, 1e7, "J/K"},
    {"t_metal", &PackageConfig::t_metal, 1e-8, 0.01, kThick},
    {"t_c4", &PackageConfig::t_c4, 1e-8, 0.01, kThick},
    {"s_sub", &PackageConfig::s_sub, 1e-4, 2, kThick},
    {"t_sub", &PackageConfig::t_sub, 1e-7, 0.1, kThick},
    {"s_solder", &PackageConfig::s_solder, 1e-4, 2, kThick},
    {"t_solder", &PackageConfig::t_solder, 1e-7, 0.1, kThick},
    {"s_pcb", &PackageConfig::s_pcb, 1e-4, 2, kThick},
    {"t_pcb", &PackageConfig::t_pcb, 1e-7, 0.1, kThick},
    {"ambient", &PackageConfig::ambient, 150, 1000, kKelvin},
    {"init_temp", &PackageConfig::init_temp, 150, 1000, kKelvin},
    {"sampling_intvl", &PackageConfig::sampling_intvl, 1e-9, 1e4, "seconds"},
};

struct TextKey {
  const char* name;
  std::string PackageConfig::*value;
};

constexpr TextKey kTexts[] = {
    {"init_file", &PackageConfig::init_file},
    {"grid_layer_file", &PackageConfig::grid_layer_file},
    {"materials_file", &PackageConfig::materials_file},
    {"steady_file", &PackageConfig::steady_file},
    {"grid_steady_file", &PackageConfig::grid_steady_file},
    {"grid_transient_file", &PackageConfig::grid_transient_file},
    {"material_chip", &PackageConfig::material_chip},
    {"material_sink", &PackageConfig::material_sink},
    {"material_spreader", &PackageConfig::material_spreader},
    {"material_interface", &PackageConfig::material_interface},
};

// Of HotSpot's block model, its throttling example, its command line and its channels of fluid.
constexpr const char* kLetPass[] = {"thermal_threshold",
                                    "base_proc_freq",
                                    "dtm_used",
                                    "block_omit_lateral",
                                    "leakage_mode",
                                    "n_metal",
                                    "n_c4",
                                    "s_c4",
                                    "package_config_file",
                                    "f",
                                    "p",
                                    "o",
                                    "c",
                                    "d",
                                    "pumping_pressure",
                                    "pump_internal_res",
                                    "inlet_temperature",
                                    "coolant_capac",
                                    "coolant_res",
                                    "coolant_visc",
                                    "coolant_material",
                                    "wall_material",
                                    "wall_capac",
                                    "wall_res",
                                    "htc",
                                    "network_file",
                                    "fluid_material"};

constexpr const char* kNotModelled[] = {"leakage_used", "package_model_used", "use_microchannels",
                                        "use_microfluidic_cooling"};

// Of HotFloorplan, which HotSpot's own examples configure in the same file.
constexpr const char* kOtherTools[] = {"wrap_l2",       "l2_label",  "model_rim", "rim_thickness",
                                       "compact_ratio", "n_orients", "P0",        "Davg",
                                       "Kmoves",        "Rcool",     "Rreject",   "Nmax",
                                       "lambdaA",       "lambdaT",   "lambdaW"};

Result<bool> switch_at(const std::string& where, std::string_view key, std::string_view value) {
  if (value == "1" || value == "on") return true;
  if (value == "0" || value == "off") return false;
  return bad_input(where, fmt::format("{} is '{}'; 0 or 1 is wanted", key, value));
}

Result<int> cells_at(const std::string& where, std::string_view key, std::string_view value) {
  const std::string name(key);
  const double number = TRY(number_at(where, value, {name.c_str(), 1, kMostCells, ""}));
  if (number != std::floor(number))
    return bad_input(where, fmt::format("{} is {}; a whole number is wanted", key, value));
  return static_cast<int>(number);
}

Result<MapMode> mode_at(const std::string& where, std::string_view value) {
  if (value == "avg") return MapMode::avg;
  if (value == "min") return MapMode::min;
  if (value == "max") return MapMode::max;
  if (value == "center") return MapMode::center;
  return bad_input(where, fmt::format("grid_map_mode is '{}'; avg, min, max or center", value));
}

std::vector<std::string> all_keys() {
  std::vector<std::string> keys{"model_secondary", "grid_rows",   "grid_cols",
                                "grid_map_mode",   "detailed_3D", "model_type"};
  for (const NumberKey& key : kNumbers) keys.emplace_back(key.name);
  for (const TextKey& key : kTexts) keys.emplace_back(key.name);
  return keys;
}

// Keys with a small set of values; nothing when `key` is none of them.
Result<bool> set_word(PackageConfig& config, const std::string& where, std::string_view key,
                      std::string_view value) {
  const auto take = [](auto result, auto& target) -> Result<bool> {
    if (!result) return failed(result.error());
    target = *result;
    return true;
  };
  if (key == "grid_rows") return take(cells_at(where, key, value), config.grid_rows);
  if (key == "grid_cols") return take(cells_at(where, key, value), config.grid_cols);
  if (key == "grid_map_mode") return take(mode_at(where, value), config.grid_map_mode);
  if (key == "model_secondary") return take(switch_at(where, key, value), config.model_secondary);
  if (key == "detailed_3D" || key == "detailed_3D_used")
    return take(switch_at(where, key, value), config.detailed_3d);
  if (key == "model_type") {
    if (value != "block" && value != "grid")
      return bad_input(where, fmt::format("model_type is '{}'; block or grid", value));
    config.block_model = value == "block";
    return true;
  }
  return false;
}

}  // namespace

Result<void> set_config(PackageConfig& config, const std::string& where, std::string_view key,
                        std::string_view value) {
  for (const NumberKey& known : kNumbers) {
    if (key != known.name) continue;
    const double number =
        TRY(number_at(where, value, {known.name, known.least, known.most, known.hint}));
    config.*known.value = number;
    return {};
  }
  for (const TextKey& known : kTexts) {
    if (key != known.name) continue;
    config.*known.value = value == "(null)" ? std::string() : std::string(value);
    return {};
  }
  const bool set = TRY(set_word(config, where, key, value));
  if (set) return {};
  if (std::ranges::find(kNotModelled, key) != std::end(kNotModelled)) {
    const bool on = TRY(switch_at(where, key, value));
    return on ? bad_input(where, fmt::format("{} is on, which is not modelled here", key))
              : Result<void>();
  }
  if (std::ranges::find(kLetPass, key) != std::end(kLetPass)) return {};
  if (std::ranges::find(kOtherTools, key) != std::end(kOtherTools)) {
    config.other_tools.emplace_back(key);
    return {};
  }
  return bad_input(where, fmt::format("unknown key '{}'{}", key.substr(0, kMaxWordBytes),
                                      did_you_mean(key, all_keys())));
}

Result<PackageConfig> read_config(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  PackageConfig config;
  std::set<std::string_view> seen;
  for (const WordLine& line : lines) {
    const std::string where = place(file, line.line);
    if (line.words.size() != 2 || !line.words[0].starts_with('-') || line.words[0].size() < 2)
      return bad_input(where, "a line is to be '-key value'");
    const std::string_view key = line.words[0].substr(1);
    if (!seen.insert(key).second)
      return bad_input(where, fmt::format("{} stands twice", key.substr(0, kMaxWordBytes)));
    if (auto set = set_config(config, where, key, line.words[1]); !set) return failed(set.error());
  }
  return config;
}

Result<Materials> read_materials(const std::string& file, std::string_view text) {
  const std::vector<WordLine> lines = TRY(word_lines(file, text));
  Materials materials;
  for (std::size_t i = 0; i < lines.size();) {
    const std::string where = place(file, lines[i].line);
    const std::string name(lines[i].words[0]);
    const std::string_view kind = i + 1 < lines.size() ? lines[i + 1].words[0] : "";
    if (kind != "solid" && kind != "fluid")
      return bad_input(where, fmt::format("'solid' or 'fluid' is to follow the name {}", name));
    Material material;
    material.fluid = kind == "fluid";
    const std::size_t wanted = material.fluid ? 5 : 4;
    if (lines.size() - i < wanted)
      return bad_input(where, fmt::format("{} ends before its {} lines are there", name, wanted));
    const auto number = [&](std::size_t line, const NumberWanted& what) {
      return number_at(place(file, lines[i + line].line), lines[i + line].words[0], what);
    };
    const Result<double> k = number(2, {"conductivity", 1e-9, 1e5, "W/(m K)"});
    const Result<double> capacity = number(3, {"heat capacity", 1, 1e8, "J/(m^3 K)"});
    const Result<double> viscosity =
        material.fluid ? number(4, {"viscosity", 0, 1e3, "Pa s"}) : Result<double>(0.0);
    for (const Result<double>* part : {&k, &capacity, &viscosity})
      if (!*part) return failed(part->error());
    material.conductivity = *k;
    material.capacity = *capacity;
    material.viscosity = *viscosity;
    if (!materials.emplace(name, material).second)
      return bad_input(where, fmt::format("material {} stands twice", name));
    i += wanted;
  }
  return materials;
}

Result<void> use_materials(PackageConfig& config, const Materials& materials) {
  const auto use = [&](const char* key, const std::string& name, double& conductivity,
                       double& capacity) -> Result<void> {
    if (name.empty()) return {};
    const auto found = materials.find(name);
    if (found == materials.end())
      return bad_input("", fmt::format("{} is {}, which no materials file has", key, name));
    if (found->second.fluid) return bad_input("", fmt::format("{} is {}, a fluid", key, name));
    conductivity = found->second.conductivity;
    capacity = found->second.capacity;
    return {};
  };
  PackageConfig& c = config;
  Result<void> used = use("material_chip", c.material_chip, c.k_chip, c.p_chip);
  if (used) used = use("material_sink", c.material_sink, c.k_sink, c.p_sink);
  if (used) used = use("material_spreader", c.material_spreader, c.k_spreader, c.p_spreader);
  if (used) used = use("material_interface", c.material_interface, c.k_interface, c.p_interface);
  return used;
}

}  // namespace partita::thermal
