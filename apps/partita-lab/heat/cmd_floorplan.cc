
#include "heat/floorplan/infrared.h"
#include "heat/floorplan/simulate.h"
#include "heat/flp.h"
#include "heat/raster/heat_map.h"
#include "lab_commands.h"

namespace partita::cli {
namespace {

struct RecoverFlags {
  std::string session, truth, flp, pictures;
  double variation = 1, counter_error = 5;
  Output output;
};

// The components' maps of power, each of the same strength.
raster::Grid all_power(const floorplan::MethodMaps& maps) {
  raster::Grid sum(maps.maps[0].rows, maps.maps[0].cols);
  for (const raster::Grid& map : maps.maps) {
    const double most = *std::max_element(map.values.begin(), map.values.end());
    if (most <= 0) continue;
    for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += map.values[i] / most;
  }
  return sum;
}

std::string recovered_svg(const floorplan::Recovery& recovery) {
  return raster::heat_map_svg(
      all_power(recovery.methods.back()),
      {"Where power is made, and the blocks found", "", {}, {}, outlines_of(recovery.plan)});
}

// Before: the pictures as they came. After: every method's maps, and the blocks.
Result<void> write_pictures(Context& context, const RecoverFlags& flags,
                            const floorplan::Session& session,
                            const floorplan::Recovery& recovery) {
  TRY(context.files.make_directories(flags.pictures));
  const auto write = [&](const std::string& name, const std::string& bytes) {
    return context.files.write_atomic(flags.pictures + "/" + name, bytes);
  };
  for (const floorplan::Capture& capture : session.captures) {
    const raster::HeatMapOptions options{capture.name + ", as the camera saw it", "K", {}, {}, {}};
    if (auto done = write(fmt::format("before-{}.png", capture.name),
                          raster::heat_map_png(capture.kelvin, options));
        !done)
      return done;
  }
  for (const floorplan::MethodMaps& method : recovery.methods)
    for (std::size_t c = 0; c < method.maps.size(); ++c) {
      raster::HeatMapOptions options{
          fmt::format("{}, {}", method.about, session.components[c].name), "", 0.0, {}, {}};
      const raster::Grid& map = method.maps[c];
      if (*std::max_element(map.values.begin(), map.values.end()) <= 0) options.lowest.reset();
      if (auto done = write(fmt::format("{}-{}.png", method.method, session.components[c].name),
                            raster::heat_map_png(map, options));
          !done)
        return done;
    }
  return write("floorplan.svg", recovered_svg(recovery));
}

std::string recovery_text(const floorplan::StatedRecovery& recovery) {
  Table blocks = headed("BLOCK|LEFT mm|BOTTOM mm|WIDTH mm|HEIGHT mm");
  const bool known = !recovery.methods.empty();
  if (known) blocks.header.insert(blocks.header.end(), {"IOU", "CENTRE um", "EDGES um"});
  for (const floorplan::StatedBlock& block : recovery.blocks) {
    blocks.add("{}|{:.3f}|{:.3f}|{:.3f}|{:.3f}", block.name, block.left_mm, block.bottom_mm,
               block.width_mm, block.height_mm);
    if (!known) continue;
    auto& row = blocks.rows.back();
    row.push_back(block.iou ? fmt::format("{:.3f}", *block.iou) : "-");
    row.push_back(block.centroid_um ? fmt::format("{:.0f}", *block.centroid_um) : "-");
    row.push_back(block.edge_um ? fmt::format("{:.0f}", *block.edge_um) : "-");
  }
  std::string text = to_string(blocks);
  text += fmt::format(
      "\nThe programs' pictures differ by up to {:.2f} K; the blocks leave {:.2f} of the noise "
      "unexplained\n(about 1: they explain what there is; far above: a block or a counter is "
      "missing).\n",
      recovery.span_k, recovery.misfit);
  if (!known) return text;
  Table methods = headed("METHOD|IOU|CENTRE um");
  for (const floorplan::StatedMethod& method : recovery.methods)
    methods.add(
        "{}|{:.3f}|{}", method.name, method.iou,
        method.centroid_um < 1e9 ? fmt::format("{:.0f}", method.centroid_um) : "none found");
  return text + "\nAgainst the truth, means over the window's components (rectangles: blocks):\n" +
         to_string(methods);
}

Result<std::vector<floorplan::MethodScore>> scores_of(Context& context, const RecoverFlags& flags,
                                                      const floorplan::Session& session,
                                                      const floorplan::Recovery& recovery) {
  if (flags.truth.empty()) return std::vector<floorplan::MethodScore>{};
  const auto truth = TRY(read_input(context.files, "--truth", flags.truth, thermal::read_flp));
  return floorplan::scores(session, recovery, truth, flags.truth);
}

Result<Exit> run_recover(Context& context, const RecoverFlags& flags) {
  const auto session = TRY(floorplan::load_session(context.files, flags.session));
  const auto recovery = TRY(floorplan::recover(
      session, {flags.variation, flags.counter_error / 100, true}, flags.session));
  const auto scores = TRY(scores_of(context, flags, session, recovery));
  if (!flags.flp.empty())
    TRY(context.files.write_atomic(flags.flp, thermal::write_flp(recovery.plan)));
  if (!flags.pictures.empty()) TRY(write_pictures(context, flags, session, recovery));
  const floorplan::StatedRecovery stated = floorplan::stated_recovery(recovery, scores);
  return finish(context, flags.output,
                flags.output.json()  ? floorplan::recovery_json(stated)
                : flags.output.svg() ? recovered_svg(recovery)
                                     : recovery_text(stated));
}

Command add_recover(CLI::App& floorplan) {
  auto [command, flags] = adding<RecoverFlags>(
      floorplan, "recover", "Find the blocks of a chip in infrared pictures of it at work");
  takes(*command, "--session", needed(flags->session), "--truth", flags->truth, "--blocks-file",
        flags->flp, "--pictures", flags->pictures, "--variation",
        within(flags->variation, 0.01, 100), "--counter-error",
        within(flags->counter_error, 0, 50));
  return runs(
      command, flags, run_recover, {"text", "json", "svg"},
      "partita floorplan simulate --dir ir --frames 60\n"
      "partita floorplan recover --session ir/session.json --truth ir/truth.flp --pictures ir/out");
}

struct SimulateFlags {
  std::string directory;
  floorplan::SimulatedSetUp set_up;
  double pixel_um = 50, silicon_um = 700, noise_mk = 50, counter_error = 5;
  std::uint64_t layout = 0;
  bool clean = false;
};

Result<Exit> run_simulate_infrared(Context& context, SimulateFlags flags) {
  flags.set_up.pixel_m = flags.pixel_um * 1e-6;
  flags.set_up.silicon_m = flags.silicon_um * 1e-6;
  flags.set_up.noise_k = flags.noise_mk / 1000;
  flags.set_up.counter_error = flags.counter_error / 100;
  flags.set_up.etched = !flags.clean;
  const floorplan::ExampleChip chip = floorplan::example_chip(flags.layout);
  const floorplan::Session session = floorplan::simulated_session(chip, flags.set_up);
  TRY(floorplan::save_session(context.files, flags.directory, session, chip.plan));
  say(context, fmt::format("{0}/session.json: {1} pictures of {2} x {3} pixels and {4} for "
                           "calibration; {0}/truth.flp: the blocks\n",
                           flags.directory, session.captures.size(), session.cols(), session.rows(),
                           session.even.size()));
  return Exit::done;
}

Command add_simulate_infrared(CLI::App& floorplan) {
  auto [command, flags] = adding<SimulateFlags>(
      floorplan, "simulate", "Simulate an infrared session of a known chip, to test recovery");
  takes(*command, "--dir", needed(flags->directory), "--sm", within(flags->set_up.sm, 0, 5),
        "--frames", within(flags->set_up.frames, 1, 1e6), "--pixel-um",
        within(flags->pixel_um, 40, 500), "--noise-mk", within(flags->noise_mk, 0.1, 1000),
        "--no-etching", flags->clean, "--power-factor", within(flags->set_up.power, 1e-4, 10),
        "--silicon-um", within(flags->silicon_um, 50, 1000), "--counter-error",
        within(flags->counter_error, 0, 30), "--layout", within(flags->layout, 0, 1e9), "--seed",
        seeded(flags->set_up.seed));
  return runs(command, flags, run_simulate_infrared,
              "partita floorplan simulate --dir ir --sm 0 --frames 60 --seed 2");
}

}  // namespace

Command add_floorplan(CLI::App& app) {
  CLI::App* floorplan = app.add_subcommand(
      "floorplan", "Where the blocks of a chip are, from infrared pictures of it at work");
  const std::vector<Command> commands = {add_recover(*floorplan),
                                         add_simulate_infrared(*floorplan)};
  floorplan->footer("partita floorplan recover --session ir/session.json --blocks-file chip.flp");
  return group_of(floorplan, commands);
}

}  // namespace partita::cli
