// partita lab demo: kernels on masks, and heat, on examples that are compiled in.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "base/input_output.h"
#include "base/terminal.h"
#include "decide/kernel_inputs.h"
#include "decide/kernel_planning.h"
#include "decide/kernel_report.h"
#include "heat/raster/heat_map.h"
#include "heat/steady.h"
#include "lab_commands.h"

namespace partita::cli {
namespace {

constexpr std::string_view kEncoder =
#include "demo_encoder.inc"
    ;
constexpr std::string_view kConvnet =
#include "demo_convnet.inc"
    ;
constexpr char kKernelGpu[] = "MI50";
constexpr int kSwitches = 4;
constexpr std::string_view kFloorplan =
#include "demo_floorplan.inc"
    ;
constexpr std::string_view kPackage =
#include "demo_package.inc"
    ;
constexpr std::string_view kPowers =
#include "demo_powers.inc"
    ;
constexpr char kFloorplanFile[] = "data/thermal/gp107.flp";
constexpr char kPackageFile[] = "data/thermal/gp107.config";
constexpr char kPowersFile[] = "data/thermal/gp107.ptrace";

std::string map_of(const thermal::ThermalChip& chip, const thermal::Solution& solution) {
  const int layer = thermal::power_layers(chip.network).front();
  return raster::heat_map_svg(thermal::layer_map(chip.network, solution, layer),
                              {.title = "A chip of six SMs, some at work",
                               .unit = "K",
                               .lowest = {},
                               .highest = {},
                               .outlines = outlines_of(chip.chip.layers.front().plan)});
}

Result<Exit> show_kernels(Context& context) {
  const hw::Topology topology = TRY(decide::load_topology(kKernelGpu));
  std::vector<profile::ModelKernels> models;
  for (const auto& [name, text] : {std::pair("encoder", kEncoder), std::pair("convnet", kConvnet)})
    models.push_back(TRY(profile::parse_kernel_csv(name, text, topology.units())));
  const auto configs = TRY(decide::load_configs("", topology, 1));
  const auto problem = TRY(decide::kernel_problem(topology, models, configs, kSwitches));
  const auto planned = TRY(decide::plan_kernels(problem, topology, 1));
  say(context, decide::kernel_plan_text(problem, *planned, topology, context.width));
  return Exit::done;
}

Result<void> show_heat(Context& context, const std::string& picture) {
  MemoryFiles files;
  TRY(files.write_atomic(kFloorplanFile, kFloorplan));
  TRY(files.write_atomic(kPackageFile, kPackage));
  TRY(files.write_atomic(kPowersFile, kPowers));
  thermal::ThermalNames names;
  names.flp = kFloorplanFile;
  names.config = kPackageFile;
  names.power = kPowersFile;
  const auto chip = TRY(thermal::load_thermal_chip(files, names));
  const auto power = TRY(thermal::load_thermal_power(files, names, chip.chip));
  std::vector<double> watts;
  for (const int column : power.columns)
    watts.push_back(power.trace.rows.front()[static_cast<std::size_t>(column)]);

  const thermal::SteadyState steady = thermal::steady_state(chip.network, watts);
  const std::vector<double> kelvin = thermal::block_temperatures(chip.network, steady.solution);
  const auto hottest = std::ranges::max_element(kelvin), coldest = std::ranges::min_element(kelvin);
  const auto name = [&](auto at) -> const std::string& {
    return chip.network.block_names()[static_cast<std::size_t>(at - kelvin.begin())];
  };
  say(context, fmt::format("{:.1f} W on {} blocks in {} x {} cells: {} is hottest with {:.1f} K "
                           "above the air, {} coldest with {:.1f} K\n",
                           steady.power, kelvin.size(), chip.network.rows(), chip.network.cols(),
                           name(hottest), *hottest - chip.network.ambient(), name(coldest),
                           *coldest - chip.network.ambient()));
  if (const auto written = write_output(picture, map_of(chip, steady.solution)); !written)
    complain(context, "no picture: " + to_string(written.error()));
  else
    say(context, fmt::format("\nThe map as a picture: {}\n", picture));
  return {};
}

Result<Exit> run_demo_lab(Context& context, const std::string& picture) {
  const Painter painter(context.colour);
  say(context, painter.bold("1. Two models on one MI50, their kernels on masks of CUs") + "\n\n");
  TRY(show_kernels(context));
  say(context,
      "\n" + painter.bold("2. Where the heat goes: a chip whose SMs work in turns") + "\n\n");
  const std::string beside =
      context.files.is_directory("build") ? "build/demo-heat.svg" : "demo-heat.svg";
  TRY(show_heat(context, picture.empty() ? beside : picture));
  if (std::fflush(context.out) != 0) return environment_error("standard output", "cannot write");
  return Exit::done;
}

}  // namespace

Command add_demo_lab(CLI::App& app) {
  auto [command, picture] =
      adding<std::string>(app, "demo", "Kernels on masks, and heat, on examples");
  add_output_file(*command, *picture);
  return runs(command, picture, run_demo_lab, "");
}

}  // namespace partita::cli
