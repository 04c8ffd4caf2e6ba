#include "heat/thermal_flags.h"

#include "flags.h"

#include <fmt/format.h>

namespace partita::cli {

void add_thermal_flags(CLI::App& command, thermal::ThermalNames& names) {
  flag(command, "--flp", names.flp);
  flag(command, "--package", names.config);
  flag(command, "--power", names.power)->required();
  flag(command, "--lcf", names.lcf);
  flag(command, "--materials", names.materials);
  flag(command, "--grid", names.grid);
  flag(command, "--set", names.settings);
  flag(command, "--hotspot-compat", names.hotspot_compat);
}

void note_thermal(Context& context, const std::vector<std::string>& notes) {
  for (const std::string& text : notes) complain(context, text);
}

std::vector<raster::Outline> outlines_of(const thermal::Floorplan& plan) {
  std::vector<raster::Outline> outlines;
  for (const thermal::Block& b : plan.blocks)
    outlines.push_back({b.name, b.left / plan.width, 1 - (b.bottom + b.height) / plan.height,
                        b.width / plan.width, b.height / plan.height});
  return outlines;
}

}  // namespace partita::cli
