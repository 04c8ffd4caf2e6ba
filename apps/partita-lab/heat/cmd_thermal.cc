#include <fmt/format.h>

#include <algorithm>

#include "base/index.h"
#include "base/form.h"
#include "base/table.h"
#include "flags.h"
#include "heat/thermal_flags.h"
#include "lab_commands.h"
#include "heat/steady.h"
#include "heat/raster/read.h"

namespace partita::cli {
namespace {

struct SteadyFlags {
  thermal::ThermalNames names;
  std::string steady_file, grid_steady_file;
  int layer = -1;
  Output output;
};

// Everything that is written about one steady state.
struct SteadyAnswer {
  const thermal::ThermalChip& chip;
  std::vector<double> watts, kelvin;  // per block of the network
  thermal::SteadyState state;
};

Result<SteadyAnswer> answer_of(Context& context, const thermal::ThermalNames& names,
                               const thermal::ThermalChip& chip) {
  const auto power = TRY(thermal::load_thermal_power(context.files, names, chip.chip));
  SteadyAnswer answer{chip, thermal::mean_watts(power.trace, power.columns), {}, {}};
  answer.state = thermal::steady_state(chip.network, answer.watts);
  answer.kelvin = thermal::block_temperatures(chip.network, answer.state.solution);
  return answer;
}

// Areas of the network's blocks, in square millimetres.
std::vector<double> block_areas(const thermal::Chip& chip) {
  std::vector<double> areas;
  for (const thermal::ChipLayer& layer : chip.layers)
    if (layer.power)
      for (const thermal::Block& block : layer.plan.blocks)
        areas.push_back(block.width * block.height * 1e6);
  return areas;
}

std::string steady_text(const SteadyAnswer& answer) {
  const thermal::Network& network = answer.chip.network;
  const thermal::Floorplan& plan = answer.chip.chip.layers.front().plan;
  const auto hottest = std::ranges::max_element(answer.kelvin) - answer.kelvin.begin();
  std::string text = fmt::format(
      "{:.2f} x {:.2f} mm, {} layers of {} x {} cells, {:.2f} W, ambient {:.2f} K\n"
      "hottest block {}: {:.2f} K ({:.2f} C), {:.2f} K above ambient\n"
      "to ambient {:.2f} W through the sink",
      plan.width * 1e3, plan.height * 1e3, network.layers(), network.rows(), network.cols(),
      answer.state.power, network.ambient(),
      network.block_names()[static_cast<std::size_t>(hottest)],
      answer.kelvin[static_cast<std::size_t>(hottest)],
      answer.kelvin[static_cast<std::size_t>(hottest)] - kZeroCelsius,
      answer.kelvin[static_cast<std::size_t>(hottest)] - network.ambient(), answer.state.primary);
  if (answer.chip.chip.config.model_secondary)
    text +=
        fmt::format(" and {:.2f} W through the board", answer.state.removed - answer.state.primary);
  const std::vector<double> areas = block_areas(answer.chip.chip);
  Table table{{"BLOCK", "W", "W/mm2", "K", "C", "ABOVE AMBIENT"}, {}};
  for (std::size_t i = 0; i < answer.kelvin.size(); ++i)
    table.rows.push_back({network.block_names()[i], fmt::format("{:.3f}", answer.watts[i]),
                          fmt::format("{:.3f}", answer.watts[i] / areas[i]),
                          fmt::format("{:.3f}", answer.kelvin[i]),
                          fmt::format("{:.3f}", answer.kelvin[i] - kZeroCelsius),
                          fmt::format("{:.3f}", answer.kelvin[i] - network.ambient())});
  return text + "\n\n" + to_string(table);
}

std::string steady_json(const SteadyAnswer& answer, bool hotspot) {
  const thermal::Network& network = answer.chip.network;
  const auto grid = [&](Form& f) {
    f.told("rows", network.rows());
    f.told("cols", network.cols());
    f.told("layers", network.layers());
  };
  const auto block = [&](Form& f, std::size_t i) {
    f.told("name", network.block_names()[i]);
    f.told("power_w", answer.watts[i]);
    f.told("temperature_k", answer.kelvin[i]);
  };
  const auto node = [](Form& f, const thermal::NamedKelvin& line) {
    f.told("name", line.name);
    f.told("temperature_k", line.kelvin);
  };
  return write_form([&](Form& f) {
    f.document("ThermalSteady");
    f.line("  ").told_object("grid", grid);
    f.told("hotspot_compat", hotspot);
    f.told("ambient_k", network.ambient());
    f.line("  ").told("power_w", answer.state.power);
    f.told("removed_w", answer.state.removed);
    f.told("sink_w", answer.state.primary);
    f.told("hottest_k", std::ranges::max(answer.state.solution.kelvin));
    f.line("  ").rows("blocks", answer.kelvin.size(), block, {.indent = "    "});
    f.line("  ").rows("nodes", thermal::steady_lines(network, answer.state.solution), node,
                      {.indent = "    "});
  });
}

// The layer that --layer names, or the first that dissipates.
Result<int> chosen_layer(const thermal::Network& network, int layer) {
  if (layer >= network.layers())
    return bad_input("--layer", fmt::format("there are layers 0 .. {}", network.layers() - 1));
  return layer >= 0 ? layer : thermal::power_layers(network).front();
}

// The floorplan whose blocks are drawn on a layer.
const thermal::Floorplan& plan_on(const thermal::ThermalChip& chip, int layer) {
  const int below = chip.network.layers() - static_cast<int>(chip.chip.layers.size()) - 2;
  const int last = static_cast<int>(chip.chip.layers.size()) - 1;
  return chip.chip.layers[at(std::clamp(layer - below, 0, last))].plan;
}

Result<std::string> picture_of(const SteadyAnswer& answer, const SteadyFlags& flags) {
  const int layer = TRY(chosen_layer(answer.chip.network, flags.layer));
  const raster::Grid map = thermal::layer_map(answer.chip.network, answer.state.solution, layer);
  if (flags.output.format == "npy") return raster::write_npy({map});
  raster::HeatMapOptions options;
  options.title = fmt::format("Layer {}, {:.1f} W", layer, answer.state.power);
  options.unit = "K";
  options.outlines = outlines_of(plan_on(answer.chip, layer));
  return flags.output.format == "png" ? raster::heat_map_png(map, options)
                                      : raster::heat_map_svg(map, options);
}

Result<Exit> run_steady(Context& context, const SteadyFlags& flags) {
  const thermal::ThermalChip chip = TRY(thermal::load_thermal_chip(context.files, flags.names));
  const SteadyAnswer answer = TRY(answer_of(context, flags.names, chip));
  note_thermal(context, chip.notes);
  Result<std::string> content = std::string();
  if (flags.output.format == "text") {
    content = steady_text(answer);
  } else if (flags.output.json()) {
    content = steady_json(answer, flags.names.hotspot_compat);
  } else {
    content = picture_of(answer, flags);
  }
  if (!content) return failed(content.error());
  const thermal::Solution& solution = answer.state.solution;
  if (!flags.steady_file.empty()) {
    const auto written = context.files.write_atomic(
        flags.steady_file, thermal::write_steady(thermal::steady_lines(chip.network, solution)));
    if (!written) return failed(written.error());
  }
  if (!flags.grid_steady_file.empty()) {
    const auto written = context.files.write_atomic(
        flags.grid_steady_file, thermal::write_grid_steady(chip.network, solution));
    if (!written) return failed(written.error());
  }
  return finish(context, flags.output, *content);
}

void add_layer_flag(CLI::App& command, int& layer) {
  within(flag(command, "--layer", layer), 0, 1000);
}

Command add_thermal_steady(CLI::App& thermal) {
  auto [command, flags] = adding<SteadyFlags>(
      thermal, "steady", "Temperatures once the mean of the powers has lasted for long");
  add_thermal_flags(*command, flags->names);
  flag(*command, "--steady-file", flags->steady_file);
  flag(*command, "--grid-steady-file", flags->grid_steady_file);
  add_layer_flag(*command, flags->layer);
  add_output(*command, flags->output, {"text", "json", "svg", "png"});
  command->footer(
      "partita thermal steady --flp data/thermal/gp107.flp --config data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace\n"
      "partita thermal steady --flp chip.flp --power chip.ptrace --grid 256,256 --steady-file "
      "chip.steady --format svg -o chip.svg");
  return {command, [flags](Context& context) { return run_steady(context, *flags); }};
}

Command add_thermal_map(CLI::App& thermal) {
  auto [command, flags] =
      adding<SteadyFlags>(thermal, "map", "The steady state of one layer as a heat map");
  add_thermal_flags(*command, flags->names);
  add_layer_flag(*command, flags->layer);
  add_output(*command, flags->output, {"svg", "png", "npy"});
  command->footer(
      "partita thermal map --flp data/thermal/gp107.flp --config data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace --grid 234,252 -o gp107.svg");
  return {command, [flags](Context& context) { return run_steady(context, *flags); }};
}

}  // namespace

Command add_thermal(CLI::App& app) {
  CLI::App* thermal = app.add_subcommand(
      "thermal", "Temperatures of chips from the power of their blocks, and of boards from logs");
  const std::vector<Command> commands = {
      add_thermal_steady(*thermal),  add_thermal_transient(*thermal), add_thermal_map(*thermal),
      add_thermal_compare(*thermal), add_thermal_forecast(*thermal),  add_thermal_dtm(*thermal)};
  thermal->footer(
      "partita thermal steady --flp data/thermal/gp107.flp --power data/thermal/gp107.ptrace");
  return group_of(thermal, commands);
}

}  // namespace partita::cli
