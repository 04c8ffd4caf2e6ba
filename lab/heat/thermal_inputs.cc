#include "heat/thermal_inputs.h"

#include <fmt/format.h>

#include "base/parse_number.h"
#include "base/split.h"
#include "base/input.h"
#include "heat/flp.h"
#include "heat/lcf.h"
#include "heat/transient.h"

namespace partita::thermal {
namespace {

constexpr double kNotableGap = 1e-3;  // of the die

// A file that another names: beside it, else as it is written.
std::string named_by(Files& files, const std::string& file, const std::string& path) {
  const std::string near = beside(file, path);
  return files.exists(near) ? near : path;
}

Result<thermal::Floorplan> load_flp(Files& files, const std::string& flag,
                                    const std::string& path) {
  const std::string text = TRY(read_input(files, flag, path));
  return thermal::read_flp(path, text);
}

Result<thermal::Materials> load_materials(Files& files, const ThermalNames& names,
                                          const thermal::PackageConfig& config) {
  std::string path = names.materials;
  if (path.empty() && !config.materials_file.empty())
    path = named_by(files, names.config, config.materials_file);
  if (path.empty()) return thermal::Materials{};
  return read_input(files, "--materials", path, thermal::read_materials);
}

Result<thermal::ChipLayer> layer_of(Files& files, const std::string& lcf,
                                    const thermal::LayerLine& line,
                                    const thermal::Materials& materials) {
  const std::string where = fmt::format("{}:{}", lcf, line.line);
  thermal::ChipLayer layer;
  layer.thickness = line.thickness;
  layer.lateral = line.lateral;
  layer.power = line.power;
  if (line.material.empty()) {
    layer.capacity = line.capacity;
    layer.conductivity = 1 / line.resistivity;
  } else {
    const auto found = materials.find(line.material);
    if (found == materials.end())
      return bad_input(
          where, fmt::format("the layer is of {}, which no materials file has", line.material));
    if (found->second.fluid)
      return bad_input(where, fmt::format("the layer is of {}, a fluid; fluids are not modelled",
                                          line.material));
    layer.capacity = found->second.capacity;
    layer.conductivity = found->second.conductivity;
  }
  layer.plan = TRY(load_flp(files, where, named_by(files, lcf, line.flp)));
  return layer;
}

Result<thermal::Chip> load_stack(Files& files, const std::string& lcf,
                                 const thermal::PackageConfig& config,
                                 const thermal::Materials& materials) {
  const std::vector<thermal::LayerLine> lines =
      TRY(read_input(files, "--lcf", lcf, thermal::read_lcf));
  thermal::Chip chip;
  chip.config = config;
  chip.stack = true;
  for (const thermal::LayerLine& line : lines) {
    thermal::ChipLayer layer = TRY(layer_of(files, lcf, line, materials));
    if (config.detailed_3d && layer.plan.own_materials)
      return bad_input(fmt::format("{}:{}", lcf, line.line),
                       "detailed_3D is on and blocks of the layer have their own capacity or "
                       "resistivity, which is not modelled here");
    chip.layers.push_back(std::move(layer));
  }
  return chip;
}

// The names of the blocks that dissipate, layer after layer.
std::vector<std::vector<std::string>> block_names(const thermal::Chip& chip) {
  std::vector<std::vector<std::string>> layers;
  for (const thermal::ChipLayer& layer : chip.layers) {
    if (!layer.power) continue;
    layers.emplace_back();
    for (const thermal::Block& block : layer.plan.blocks) layers.back().push_back(block.name);
  }
  return layers;
}

std::vector<std::string> notes_on(const thermal::Chip& chip) {
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < chip.layers.size(); ++i)
    if (const double gap = thermal::uncovered_share(chip.layers[i].plan);
        chip.layers[i].power && gap > kNotableGap)
      notes.push_back(
          fmt::format("{:.1f} % of the die {}is covered by no block; nothing is "
                      "dissipated there",
                      100 * gap, chip.stack ? fmt::format("in layer {} ", i) : ""));
  if (chip.config.block_model)
    notes.emplace_back(
        "the configuration asks for the block model; the grid model answers, so temperatures are "
        "near those of HotSpot's block model, not the same");
  if (!chip.config.other_tools.empty())
    notes.push_back(
        fmt::format("the configuration has keys of HotSpot's floorplanner, which say "
                    "nothing here: {}",
                    joined(chip.config.other_tools, ", ")));
  return notes;
}

}  // namespace

Result<GridSize> parse_grid_size(const std::string& flag, const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  GridSize size;
  if (parts.size() == 2) {
    size.rows = parse_number<int>(parts[0]).value_or(0);
    size.cols = parse_number<int>(parts[1]).value_or(0);
  }
  const auto possible = [](int n) { return n >= 1 && n <= thermal::kMostGridSide; };
  if (!possible(size.rows) || !possible(size.cols))
    return bad_input(
        flag, fmt::format("'{}'; ROWS,COLS is wanted, each 1 .. {}", text, thermal::kMostGridSide));
  return size;
}

Result<thermal::PackageConfig> load_thermal_config(Files& files, const ThermalNames& names,
                                                   thermal::PackageConfig config) {
  if (!names.config.empty()) {
    config = TRY(read_input(files, "--package", names.config, thermal::read_config));
  }
  for (const std::string& setting : names.settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_input("--set", fmt::format("'{}'; KEY=VALUE is wanted", setting));
    if (auto set = thermal::set_config(config, "--set", setting.substr(0, equals),
                                       setting.substr(equals + 1));
        !set)
      return failed(set.error());
  }
  if (!names.grid.empty()) {
    const GridSize size = TRY(parse_grid_size("--grid", names.grid));
    config.grid_rows = size.rows;
    config.grid_cols = size.cols;
  }
  return config;
}

Result<ThermalChip> load_thermal_chip(Files& files, const ThermalNames& names) {
  thermal::PackageConfig config = TRY(load_thermal_config(files, names, {}));
  const thermal::Materials materials = TRY(load_materials(files, names, config));
  if (auto used = thermal::use_materials(config, materials); !used)
    return bad_input(names.config, used.error().message);
  std::string lcf = names.lcf;
  if (lcf.empty() && !config.grid_layer_file.empty())
    lcf = named_by(files, names.config, config.grid_layer_file);
  if (lcf.empty() && names.flp.empty())
    return bad_input("--flp", "a floorplan is wanted, or layers (--lcf)");
  thermal::Chip chip;
  if (lcf.empty()) {
    const thermal::Floorplan plan = TRY(load_flp(files, "--flp", names.flp));
    chip = thermal::one_die(config, plan);
  } else {
    chip = TRY(load_stack(files, lcf, config, materials));
  }
  const Result<thermal::Network> network =
      thermal::make_network(chip, {config.grid_rows, config.grid_cols, names.hotspot_compat});
  if (!network) return bad_input(lcf.empty() ? names.flp : lcf, network.error().message);
  std::vector<std::string> notes = notes_on(chip);
  return ThermalChip{std::move(chip), *network, std::move(notes)};
}

Result<ThermalPower> load_thermal_power(Files& files, const ThermalNames& names,
                                        const thermal::Chip& chip) {
  thermal::PowerTrace trace = TRY(read_input(files, "--power", names.power, thermal::read_ptrace));
  std::vector<int> columns = TRY(thermal::trace_columns(trace, block_names(chip)));
  return ThermalPower{std::move(trace), std::move(columns)};
}

Result<std::vector<double>> load_thermal_start(Files& files, const ThermalNames& names,
                                               const ThermalChip& chip) {
  const thermal::PackageConfig& config = chip.chip.config;
  if (config.init_file.empty()) return thermal::uniform_start(chip.network, config.init_temp);
  const std::string path = named_by(files, names.config, config.init_file);
  const std::vector<thermal::NamedKelvin> lines =
      TRY(read_input(files, "init_file", path, thermal::read_steady));
  return thermal::start_from(chip.network, path, lines);
}

}  // namespace partita::thermal
