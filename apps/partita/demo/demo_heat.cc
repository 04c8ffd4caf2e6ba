#include "demo/demo_heat.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/input_output.h"
#include "heat/thermal_flags.h"
#include "heat/steady.h"
#include "heat/raster/heat_map.h"

namespace partita::cli {
namespace {

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

Result<void> store(MemoryFiles& files) {
  if (auto written = files.write_atomic(kFloorplanFile, kFloorplan); !written) return written;
  if (auto written = files.write_atomic(kPackageFile, kPackage); !written) return written;
  return files.write_atomic(kPowersFile, kPowers);
}

std::string map_of(const thermal::ThermalChip& chip, const thermal::Solution& solution) {
  const int layer = thermal::power_layers(chip.network).front();
  return raster::heat_map_svg(thermal::layer_map(chip.network, solution, layer),
                              {.title = "A chip of six SMs, some at work",
                               .unit = "K",
                               .lowest = {},
                               .highest = {},
                               .outlines = outlines_of(chip.chip.layers.front().plan)});
}

}  // namespace

Result<void> show_heat(Context& context, const std::string& picture) {
  MemoryFiles files;
  if (auto stored = store(files); !stored) return stored;
  thermal::ThermalNames names;
  names.flp = kFloorplanFile;
  names.config = kPackageFile;
  names.power = kPowersFile;
  const auto chip = thermal::load_thermal_chip(files, names);
  if (!chip) return failed(chip.error());
  const auto power = thermal::load_thermal_power(files, names, chip->chip);
  if (!power) return failed(power.error());
  std::vector<double> watts;
  for (const int column : power->columns)
    watts.push_back(power->trace.rows.front()[static_cast<std::size_t>(column)]);

  const thermal::SteadyState steady = thermal::steady_state(chip->network, watts);
  const std::vector<double> kelvin = thermal::block_temperatures(chip->network, steady.solution);
  const auto hottest = std::ranges::max_element(kelvin), coldest = std::ranges::min_element(kelvin);
  const auto name = [&](auto at) -> const std::string& {
    return chip->network.block_names()[static_cast<std::size_t>(at - kelvin.begin())];
  };
  say(context, fmt::format("{:.1f} W on {} blocks in {} x {} cells: {} is hottest with {:.1f} K "
                           "above the air, {} coldest with {:.1f} K\n",
                           steady.power, kelvin.size(), chip->network.rows(), chip->network.cols(),
                           name(hottest), *hottest - chip->network.ambient(), name(coldest),
                           *coldest - chip->network.ambient()));
  if (const auto written = write_output(picture, map_of(*chip, steady.solution)); !written)
    complain(context, "no picture: " + to_string(written.error()));
  else
    say(context, fmt::format("\nThe map as a picture: {}\n", picture));
  return {};
}

}  // namespace partita::cli
