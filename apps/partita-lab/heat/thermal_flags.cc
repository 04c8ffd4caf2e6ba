#include "heat/thermal_flags.h"

#include <fmt/format.h>

namespace partita::cli {

void add_thermal_flags(CLI::App& command, decide::ThermalNames& names) {
  command.add_option("--flp", names.flp, "Floorplan: HotSpot's .flp, in metres")->type_name("FILE");
  command
      .add_option("--config", names.config,
                  "Package and environment: HotSpot's .config (default: HotSpot's defaults)")
      ->type_name("FILE");
  command
      .add_option("--power", names.power,
                  "Watts of every block: HotSpot's .ptrace, a line per sample")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--lcf", names.lcf,
                  "Layers of a stacked chip: HotSpot's .lcf, in the place of --flp")
      ->type_name("FILE");
  command.add_option("--materials", names.materials, "Materials that the others name")
      ->type_name("FILE");
  command
      .add_option("--grid", names.grid,
                  "Cells of the die, any numbers (default: the configuration's, 64,64)")
      ->type_name("ROWS,COLS");
  command
      .add_option("--set", names.settings,
                  "A key of the configuration with another value; may be repeated")
      ->type_name("KEY=VALUE");
  command.add_flag("--hotspot-compat", names.hotspot_compat,
                   "Compute as HotSpot 7.0 does, with its defects, to compare with its results");
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
