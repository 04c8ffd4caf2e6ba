#include <cmath>
#include <map>

#include "base/index.h"
#include "forms/time_plot.h"
#include "heat/compare.h"
#include "heat/dtm/dtm_study.h"
#include "heat/flp.h"
#include "heat/forecast.h"
#include "heat/raster/heat_map.h"
#include "heat/raster/read.h"
#include "heat/rom.h"
#include "heat/steady.h"
#include "heat/text_lines.h"
#include "heat/thermal_inputs.h"
#include "heat/transient.h"
#include "hw/telemetry/log.h"
#include "lab_commands.h"

namespace partita::cli {
namespace {

void add_thermal_flags(CLI::App& command, thermal::ThermalNames& names) {
  takes(command, "--flp", names.flp, "--package", names.config, "--power", needed(names.power),
        "--lcf", names.lcf, "--materials", names.materials, "--grid", names.grid, "--set",
        names.settings, "--hotspot-compat", names.hotspot_compat);
}

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
  Table table = headed("BLOCK|W|W/mm2|K|C|ABOVE AMBIENT");
  for (std::size_t i = 0; i < answer.kelvin.size(); ++i)
    table.add("{}|{:.3f}|{:.3f}|{:.3f}|{:.3f}|{:.3f}", network.block_names()[i], answer.watts[i],
              answer.watts[i] / areas[i], answer.kelvin[i], answer.kelvin[i] - kZeroCelsius,
              answer.kelvin[i] - network.ambient());
  return text + "\n\n" + to_string(table);
}

std::string steady_json(const SteadyAnswer& answer, bool hotspot) {
  const thermal::Network& network = answer.chip.network;
  const auto grid = [&](Form& f) {
    tell(f, "rows", network.rows(), "cols", network.cols(), "layers", network.layers());
  };
  const auto block = [&](Form& f, std::size_t i) {
    tell(f, "name", network.block_names()[i], "power_w", answer.watts[i], "temperature_k",
         answer.kelvin[i]);
  };
  const auto node = [](Form& f, const thermal::NamedKelvin& line) {
    tell(f, "name", line.name, "temperature_k", line.kelvin);
  };
  return write_form([&](Form& f) {
    f.document("ThermalSteady");
    f.line("  ").told_object("grid", grid);
    tell(f, "hotspot_compat", hotspot, "ambient_k", network.ambient());
    tell(f.line("  "), "power_w", answer.state.power, "removed_w", answer.state.removed, "sink_w",
         answer.state.primary, "hottest_k", std::ranges::max(answer.state.solution.kelvin));
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
  for (const std::string& text : chip.notes) complain(context, text);
  const std::string content =
      TRY(flags.output.format == "text" ? steady_text(answer)
          : flags.output.json()         ? steady_json(answer, flags.names.hotspot_compat)
                                        : picture_of(answer, flags));
  const thermal::Solution& solution = answer.state.solution;
  if (!flags.steady_file.empty())
    TRY(context.files.write_atomic(
        flags.steady_file, thermal::write_steady(thermal::steady_lines(chip.network, solution))));
  if (!flags.grid_steady_file.empty())
    TRY(context.files.write_atomic(flags.grid_steady_file,
                                   thermal::write_grid_steady(chip.network, solution)));
  return finish(context, flags.output, content);
}

void add_layer_flag(CLI::App& command, int& layer) {
  within(flag(command, "--layer", layer), 0, 1000);
}

Command add_thermal_steady(CLI::App& thermal) {
  auto [command, flags] =
      adding<SteadyFlags>(thermal, "steady", "Compute steady-state temperatures at the mean power");
  add_thermal_flags(*command, flags->names);
  takes(*command, "--steady-file", flags->steady_file, "--grid-steady-file",
        flags->grid_steady_file);
  add_layer_flag(*command, flags->layer);
  return runs(
      command, flags, run_steady, {"text", "json", "svg", "png"},
      "partita thermal steady --flp data/thermal/gp107.flp --package data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace\n"
      "partita thermal steady --flp chip.flp --power chip.ptrace --grid 256,256 --steady-file "
      "chip.steady --format svg -o chip.svg");
}

Command add_thermal_map(CLI::App& thermal) {
  auto [command, flags] =
      adding<SteadyFlags>(thermal, "map", "Draw the steady state of one layer as a heat map");
  add_thermal_flags(*command, flags->names);
  add_layer_flag(*command, flags->layer);
  return runs(
      command, flags, run_steady, {"svg", "png", "npy"},
      "partita thermal map --flp data/thermal/gp107.flp --package data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace --grid 234,252 -o gp107.svg");
}

constexpr double kMostStepNodes = 2e11;  // of an integration: hours, not days

struct TransientFlags {
  thermal::ThermalNames names;
  std::string method = "rom", ttrace;
  double interval = 0, tolerance = 0;
  int steps = 4;
  Output output;
};

// A sample per row of the power trace, at its end.
struct TransientAnswer {
  double interval = 0;
  std::string method;
  int states = 0;
  std::vector<std::string> names;         // of the network's blocks
  std::vector<std::vector<double>> rows;  // kelvin
};

Result<TransientAnswer> by_rom(const TransientFlags& flags, const thermal::ThermalChip& chip,
                               const thermal::ThermalPower& power, TransientAnswer answer,
                               const std::vector<double>& start) {
  thermal::ReduceOptions options;
  options.initial = start;
  if (flags.tolerance > 0) options.tolerance = flags.tolerance;
  Result<thermal::ReducedModel> model =
      thermal::reduce(chip.network, Seconds{answer.interval}, options);
  if (!model) return bad_input("--method rom", model.error().message);
  answer.states = model->states();
  model->start_initial();
  for (const std::vector<double>& row : power.trace.rows) {
    model->step(thermal::watts_of(row, power.columns));
    answer.rows.push_back(model->block_temperatures());
  }
  return answer;
}

Result<TransientAnswer> by_integration(const TransientFlags& flags,
                                       const thermal::ThermalChip& chip,
                                       const thermal::ThermalPower& power, TransientAnswer answer,
                                       const std::vector<double>& start) {
  const thermal::IntegratorOptions options{10, flags.steps};
  const double work = static_cast<double>(power.trace.rows.size()) * (options.doublings + 1) *
                      options.steps * static_cast<double>(chip.network.nodes());
  if (work > kMostStepNodes)
    return bad_input("--method integrate",
                     fmt::format("{} samples of {} nodes would take days; take --method rom or a "
                                 "coarser grid",
                                 power.trace.rows.size(), chip.network.nodes()));
  thermal::Integrator integrator(chip.network, Seconds{answer.interval}, options);
  integrator.start(start);
  for (const std::vector<double>& row : power.trace.rows) {
    integrator.step(thermal::watts_of(row, power.columns));
    answer.rows.push_back(thermal::block_temperatures(chip.network, integrator.solution()));
  }
  return answer;
}

// In the order of the power trace, as HotSpot writes it.
thermal::TemperatureTrace traced(const TransientAnswer& answer,
                                 const thermal::ThermalPower& power) {
  thermal::TemperatureTrace trace;
  trace.names = power.trace.names;
  for (const std::vector<double>& row : answer.rows) {
    std::vector<double>& kelvin = trace.rows.emplace_back(row.size());
    for (std::size_t i = 0; i < row.size(); ++i)
      kelvin[static_cast<std::size_t>(power.columns[i])] = row[i];
  }
  return trace;
}

struct BlockSummary {
  double first = 0, last = 0, mean = 0, most = 0, most_at = 0;
};
BlockSummary summary_of(const TransientAnswer& answer, std::size_t block) {
  BlockSummary summary;
  summary.first = answer.rows.front()[block];
  summary.last = answer.rows.back()[block];
  for (std::size_t i = 0; i < answer.rows.size(); ++i) {
    const double kelvin = answer.rows[i][block];
    summary.mean += kelvin / static_cast<double>(answer.rows.size());
    if (kelvin > summary.most) {
      summary.most = kelvin;
      summary.most_at = static_cast<double>(i + 1) * answer.interval;
    }
  }
  return summary;
}

std::string headline(const TransientAnswer& answer, const thermal::ThermalChip& chip) {
  const std::string how = answer.states > 0 ? fmt::format(" of {} states", answer.states) : "";
  return fmt::format("{} samples of {:g} s, {} blocks, {} nodes; {}{}", answer.rows.size(),
                     answer.interval, answer.names.size(), chip.network.nodes(), answer.method,
                     how);
}

std::string transient_text(const TransientAnswer& answer, const thermal::ThermalChip& chip) {
  Table table = headed("BLOCK|FIRST K|LAST K|MEAN K|HIGHEST K|AT s");
  for (std::size_t i = 0; i < answer.names.size(); ++i) {
    const BlockSummary s = summary_of(answer, i);
    table.add("{}|{:.3f}|{:.3f}|{:.3f}|{:.3f}|{:g}", answer.names[i], s.first, s.last, s.mean,
              s.most, s.most_at);
  }
  return headline(answer, chip) + "\n\n" + to_string(table);
}

std::string transient_json(const TransientAnswer& answer, const thermal::ThermalChip& chip,
                           bool hotspot) {
  return write_form([&](Form& f) {
    f.document("ThermalTransient");
    tell(f, "method", answer.method, "states", answer.states, "hotspot_compat", hotspot,
         "interval_s", answer.interval, "ambient_k", chip.network.ambient());
    f.line("  ").told_list("blocks", answer.names, {.indent = "    "});
    f.line("  ").told_list("temperature_k", answer.rows, {.indent = "    "});
  });
}

std::string transient_svg(const TransientAnswer& answer, const thermal::ThermalChip& chip) {
  forms::TimePlot plot{"Temperatures of blocks", headline(answer, chip), "K", {}, {}, {}};
  for (std::size_t i = 0; i < answer.rows.size(); ++i)
    plot.seconds.push_back(static_cast<double>(i + 1) * answer.interval);
  for (std::size_t block = 0; block < answer.names.size(); ++block) {
    forms::TimeLine line{answer.names[block], {}};
    for (const std::vector<double>& row : answer.rows) line.values.push_back(row[block]);
    plot.lines.push_back(std::move(line));
  }
  return forms::time_plot_svg(plot);
}

Result<Exit> run_transient(Context& context, const TransientFlags& flags) {
  const thermal::ThermalChip chip = TRY(thermal::load_thermal_chip(context.files, flags.names));
  const auto power = TRY(thermal::load_thermal_power(context.files, flags.names, chip.chip));
  const auto start = TRY(thermal::load_thermal_start(context.files, flags.names, chip));
  for (const std::string& text : chip.notes) complain(context, text);
  TransientAnswer begun;
  begun.interval = flags.interval > 0 ? flags.interval : chip.chip.config.sampling_intvl;
  begun.method = flags.method;
  begun.names = chip.network.block_names();
  const TransientAnswer answer =
      TRY(flags.method == "rom" ? by_rom(flags, chip, power, std::move(begun), start)
                                : by_integration(flags, chip, power, std::move(begun), start));
  if (!flags.ttrace.empty())
    TRY(context.files.write_atomic(flags.ttrace, thermal::write_ttrace(traced(answer, power))));
  return finish(context, flags.output,
                flags.output.json()  ? transient_json(answer, chip, flags.names.hotspot_compat)
                : flags.output.svg() ? transient_svg(answer, chip)
                                     : transient_text(answer, chip));
}

Command add_thermal_transient(CLI::App& thermal) {
  auto [command, flags] = adding<TransientFlags>(
      thermal, "transient", "Compute temperatures over time, a sample per line of the power trace");
  add_thermal_flags(*command, flags->names);
  takes(*command, "--ttrace", flags->ttrace, "--method",
        one_of(flags->method, {"rom", "integrate"},
               "rom: a reduced model, microseconds per sample; integrate: all nodes, to check the "
               "other"),
        "--sample-interval", limited(flags->interval, 1e-9, 1e4), "--rom-tolerance",
        limited(flags->tolerance, 1e-9, 1), "--steps", within(flags->steps, 1, 1000));
  return runs(
      command, flags, run_transient, {"text", "json", "svg"},
      "partita thermal transient --flp data/thermal/gp107.flp --package data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace --ttrace gp107.ttrace\n"
      "partita thermal transient --flp chip.flp --power chip.ptrace --sample-interval 0.01 "
      "--format svg -o chip.svg");
}

struct ComparisonFlags {
  std::string result, reference, flp, grid;
  double ambient = 318.15, require = 0;
  Output output;
};

enum class ResultKind { steady, grid, trace };

// By the first line that says something.
Result<ResultKind> kind_of(const std::string& file, std::string_view text) {
  const auto lines = TRY(thermal::word_lines(file, text));
  if (lines.empty()) return bad_input(file, "no temperatures");
  const auto& words = lines.front().words;
  if (words[0] == "Layer") return ResultKind::grid;
  if (words.size() != 2 || words[0] == "Unit")
    return words.size() == 2 ? ResultKind::steady : ResultKind::trace;
  if (!parse_number<double>(words[1])) return ResultKind::trace;
  return parse_number<double>(words[0]) ? ResultKind::grid : ResultKind::steady;
}

// One line of what is said: a name, and how well it agrees.
struct Part {
  std::string name;
  thermal::ValueAgreement values;
};
struct ComparisonAnswer {
  std::vector<Part> parts;                  // the first is about everything
  std::vector<thermal::MapAgreement> maps;  // per layer of grids
  int unmatched = 0;                        // names of one side alone
};

Result<ComparisonAnswer> compare_steady(const ComparisonFlags& flags, const std::string& result,
                                        const std::string& reference) {
  const auto ours = TRY(thermal::read_steady(flags.result, result));
  const auto theirs = TRY(thermal::read_steady(flags.reference, reference));
  std::map<std::string, double> known;
  for (const thermal::NamedKelvin& line : theirs) known.emplace(line.name, line.kelvin);
  ComparisonAnswer answer;
  std::vector<double> a, b;
  for (const thermal::NamedKelvin& line : ours) {
    const auto found = known.find(line.name);
    if (found == known.end()) {
      ++answer.unmatched;
      continue;
    }
    a.push_back(line.kelvin);
    b.push_back(found->second);
    known.erase(found);
  }
  answer.unmatched += static_cast<int>(known.size());
  if (a.empty()) return bad_input(flags.result, "no name is in both files");
  answer.parts.push_back({"all names", thermal::value_agreement(a, b, flags.ambient)});
  return answer;
}

Result<ComparisonAnswer> compare_traces(const ComparisonFlags& flags, const std::string& result,
                                        const std::string& reference) {
  const auto ours = TRY(thermal::read_ttrace(flags.result, result));
  const auto theirs = TRY(thermal::read_ttrace(flags.reference, reference));
  if (ours.rows.size() != theirs.rows.size())
    return bad_input(flags.result, fmt::format("{} samples; {} has {}", ours.rows.size(),
                                               flags.reference, theirs.rows.size()));
  ComparisonAnswer answer;
  std::vector<double> all_a, all_b;
  std::vector<Part> blocks;
  for (std::size_t i = 0; i < ours.names.size(); ++i) {
    const auto found = std::ranges::find(theirs.names, ours.names[i]);
    if (found == theirs.names.end()) {
      ++answer.unmatched;
      continue;
    }
    const auto column = static_cast<std::size_t>(found - theirs.names.begin());
    std::vector<double> a, b;
    for (std::size_t row = 0; row < ours.rows.size(); ++row) {
      a.push_back(ours.rows[row][i]);
      b.push_back(theirs.rows[row][column]);
    }
    blocks.push_back({ours.names[i], thermal::value_agreement(a, b, flags.ambient)});
    all_a.insert(all_a.end(), a.begin(), a.end());
    all_b.insert(all_b.end(), b.begin(), b.end());
  }
  if (all_a.empty()) return bad_input(flags.result, "no name is in both files");
  answer.unmatched += static_cast<int>(theirs.names.size() - blocks.size());
  answer.parts.push_back({"all samples", thermal::value_agreement(all_a, all_b, flags.ambient)});
  answer.parts.insert(answer.parts.end(), blocks.begin(), blocks.end());
  return answer;
}

// Of --grid, else a square.
Result<thermal::GridSize> size_of_maps(const ComparisonFlags& flags, std::size_t cells) {
  thermal::GridSize size;
  if (flags.grid.empty())
    size.rows = size.cols = static_cast<int>(std::lround(std::sqrt(static_cast<double>(cells))));
  else
    size = TRY(thermal::parse_grid_size("--grid", flags.grid));
  if (static_cast<std::size_t>(size.rows) * static_cast<std::size_t>(size.cols) != cells)
    return bad_input("--grid", fmt::format("layers of {} cells; say their ROWS,COLS", cells));
  return size;
}

Result<thermal::CellSize> cell_size(Context& context, const ComparisonFlags& flags,
                                    const thermal::GridSize& size) {
  if (flags.flp.empty()) return thermal::CellSize{};
  const auto plan = TRY(read_input(context.files, "--flp", flags.flp, thermal::read_flp));
  return thermal::CellSize{plan.width * 1e6 / size.cols, plan.height * 1e6 / size.rows};
}

Result<ComparisonAnswer> compare_grids(Context& context, const ComparisonFlags& flags,
                                       const std::string& result, const std::string& reference) {
  const auto ours = TRY(thermal::read_grid_steady(flags.result, result));
  const auto theirs = TRY(thermal::read_grid_steady(flags.reference, reference));
  const std::size_t cells = ours.layers.front().size();
  if (ours.layers.size() != theirs.layers.size() || cells != theirs.layers.front().size())
    return bad_input(flags.result, fmt::format("{} layers of {} cells; {} has {} of {}",
                                               ours.layers.size(), cells, flags.reference,
                                               theirs.layers.size(), theirs.layers.front().size()));
  const thermal::GridSize size = TRY(size_of_maps(flags, cells));
  const thermal::CellSize cell = TRY(cell_size(context, flags, size));
  ComparisonAnswer answer;
  std::vector<double> all_a, all_b;
  for (std::size_t n = 0; n < ours.layers.size(); ++n) {
    raster::Grid a(size.rows, size.cols), b(size.rows, size.cols);
    a.values = ours.layers[n];
    b.values = theirs.layers[n];
    answer.maps.push_back(thermal::map_agreement(a, b, cell, flags.ambient));
    all_a.insert(all_a.end(), a.values.begin(), a.values.end());
    all_b.insert(all_b.end(), b.values.begin(), b.values.end());
  }
  answer.parts.push_back({"all cells", thermal::value_agreement(all_a, all_b, flags.ambient)});
  for (std::size_t n = 0; n < answer.maps.size(); ++n)
    answer.parts.push_back({fmt::format("layer {}", n), answer.maps[n].cells});
  return answer;
}

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.4f}", *value) : "-";
}

std::string comparison_text(const ComparisonFlags& flags, const ComparisonAnswer& answer) {
  Table table =
      headed("WHAT|VALUES|WORST K|RMS K|MEAN K|SLOPE|PEARSON|SPEARMAN|RISE % GEOMEAN|P95");
  for (const Part& part : answer.parts) {
    const thermal::ValueAgreement& v = part.values;
    table.add("{}|{}|{:.6f}|{:.6f}|{:+.6f}|{:.6f}|{:.6f}|{:.6f}|{}|{}", part.name, v.values,
              v.worst_k, v.rms_k, v.mean_k, v.slope, v.pearson, v.spearman,
              percent(v.rise_error_geomean), percent(v.rise_error_p95));
  }
  std::string text = to_string(table);
  if (!answer.maps.empty()) {
    Table maps{
        {"MAP", "NORMALISED RMSE", "SSIM", "PEAK K",
         flags.flp.empty() ? "PEAK OFF (cells)" : "PEAK OFF um", "HISTOGRAM", "WASSERSTEIN K"},
        {}};
    for (std::size_t n = 0; n < answer.maps.size(); ++n) {
      const thermal::MapAgreement& m = answer.maps[n];
      maps.add("layer {}|{:.6f}|{:.6f}|{:+.6f}|{:.1f}|{:.4f}|{:.6f}", n, m.normalised_rmse,
               m.similarity, m.peak_k, m.peak_distance, m.histogram_overlap, m.wasserstein_k);
    }
    text += "\n" + to_string(maps);
  }
  if (answer.unmatched > 0)
    text += fmt::format("\n{} names are in one of the files alone\n", answer.unmatched);
  return text;
}

void tell_part(Form& f, const Part& part) {
  const thermal::ValueAgreement& v = part.values;
  tell(f, "name", part.name, "values", v.values, "worst_k", v.worst_k, "rms_k", v.rms_k, "mean_k",
       v.mean_k, "slope", v.slope, "intercept_k", v.intercept, "pearson", v.pearson, "spearman",
       v.spearman);
  f.optional(v.rise_error_geomean.has_value())
      .told("rise_error_geomean_percent", v.rise_error_geomean);
  f.optional(v.rise_error_p95.has_value()).told("rise_error_p95_percent", v.rise_error_p95);
}

std::string comparison_json(const ComparisonAnswer& answer) {
  const auto map = [&](Form& f, std::size_t layer) {
    const thermal::MapAgreement& m = answer.maps[layer];
    tell(f, "layer", layer, "normalised_rmse", m.normalised_rmse, "ssim", m.similarity, "peak_k",
         m.peak_k, "peak_distance", m.peak_distance, "histogram_overlap", m.histogram_overlap,
         "wasserstein_k", m.wasserstein_k);
  };
  return write_form([&](Form& f) {
    f.document("ThermalComparison");
    f.told("unmatched", answer.unmatched);
    f.line("  ").rows("parts", answer.parts, tell_part, {.indent = "    "});
    f.line("  ").rows("maps", answer.maps.size(), map, {.indent = "    "});
  });
}

Result<Exit> run_comparison(Context& context, const ComparisonFlags& flags) {
  const auto result = TRY(read_input(context.files, "RESULT", flags.result));
  const auto reference = TRY(read_input(context.files, "REFERENCE", flags.reference));
  const ResultKind kind = TRY(kind_of(flags.result, result));
  const ComparisonAnswer answer =
      TRY(kind == ResultKind::steady  ? compare_steady(flags, result, reference)
          : kind == ResultKind::trace ? compare_traces(flags, result, reference)
                                      : compare_grids(context, flags, result, reference));
  const std::string content =
      flags.output.json() ? comparison_json(answer) : comparison_text(flags, answer);
  TRY(deliver(context, flags.output, content));
  const double worst = answer.parts.front().values.worst_k;
  if (flags.require <= 0 || (worst <= flags.require && answer.unmatched == 0)) return Exit::done;
  complain(context, fmt::format("off by up to {:.6f} K; {} K were required", worst, flags.require));
  return Exit::no;
}

Command add_thermal_compare(CLI::App& thermal) {
  auto [command, flags] = adding<ComparisonFlags>(
      thermal, "compare", "Compare two results: steady, grid or trace files of HotSpot's forms");
  command->add_option("RESULT", flags->result, "The result to compare")->required();
  command->add_option("REFERENCE", flags->reference, "The result to compare it with")->required();
  takes(*command, "--ambient", within(flags->ambient, 0, 1000), "--flp", flags->flp, "--grid",
        flags->grid, "--require-within", limited(flags->require, 0, 1e6));
  return runs(command, flags, run_comparison, {"text", "json"},
              "partita thermal compare ours.steady reference.steady --require-within 0.001");
}

constexpr double kRecent = 60;  // seconds whose mean power is taken to go on

struct ForecastFlags {
  std::string telemetry, sensor = "gpu";
  int gpu = 0;
  double limit = 83, power = -1, ambient = -300;
  Output output;
};

Result<std::vector<thermal::HeatPoint>> points_of(const ForecastFlags& flags,
                                                  const telemetry::Log& log) {
  std::vector<thermal::HeatPoint> points;
  bool seen = false;
  for (const telemetry::Sample& sample : log)
    for (const telemetry::GpuSample& gpu : sample.gpus) {
      if (gpu.index != flags.gpu) continue;
      seen = true;
      const auto& temperature = flags.sensor == "memory" ? gpu.memory_temperature : gpu.temperature;
      const auto& power = gpu.power_average ? gpu.power_average : gpu.power;
      if (power && temperature) points.push_back({sample.at, *power, *temperature});
    }
  if (!seen) return bad_input("--gpu-index", fmt::format("the log has no GPU {}", flags.gpu));
  if (points.empty())
    return bad_input("--telemetry",
                     fmt::format("no sample of GPU {} tells both power and {} temperature",
                                 flags.gpu, flags.sensor));
  return points;
}

double recent_power(const std::vector<thermal::HeatPoint>& points) {
  double sum = 0, count = 0;
  for (const thermal::HeatPoint& point : points) {
    if ((points.back().at - point.at).value > kRecent) continue;
    sum += point.power.value;
    ++count;
  }
  return sum / count;
}

struct ForecastAnswer {
  std::vector<thermal::HeatPoint> points;
  thermal::GpuThermalModel model;
  Watts power;
  Celsius limit;
  std::optional<Seconds> reached;
};

std::vector<std::string> cannot_know(const ForecastAnswer& a) {
  std::vector<std::string> texts;
  if (a.power.value > 1.1 * a.model.most.value || a.power.value < 0.9 * a.model.least.value)
    texts.push_back(fmt::format("{:.0f} W is outside the {:.0f} .. {:.0f} W that were seen",
                                a.power.value, a.model.least.value, a.model.most.value));
  const double slowest = a.model.stages.back().time.value;
  if (a.model.span.value < 2 * slowest)
    texts.push_back(
        fmt::format("the log lasts {}, less than twice the slowest time constant "
                    "({}): where the temperature ends is a guess",
                    duration_text(a.model.span.value), duration_text(slowest)));
  texts.emplace_back(
      "fans that turn faster, air that warms up and boards that lower their clock "
      "are in the fit only as far as they are in the log");
  texts.emplace_back("one sensor: hot spots and, if it was not asked for, the memory are hotter");
  return texts;
}

std::string forecast_text(const ForecastAnswer& a) {
  const thermal::GpuThermalModel& m = a.model;
  std::string text = fmt::format(
      "now {:.1f} C; at {:.1f} W it ends at {:.1f} C\n{}\nsustainable below {:.0f} C: {:.1f} W\n\n"
      "ambient {:.1f} C, {:.4f} K/W in {} stages; the fit is off by {:.2f} K (rms), the last 30 % "
      "predicted from the rest by {:.2f} K\n\n",
      a.points.back().temperature.value, a.power.value,
      thermal::settled_temperature(m, a.power).value,
      !a.reached              ? fmt::format("{:.0f} C is never reached", a.limit.value)
      : a.reached->value == 0 ? fmt::format("{:.0f} C is reached already", a.limit.value)
                              : fmt::format("{:.0f} C is reached in {}", a.limit.value,
                                            duration_text(a.reached->value)),
      a.limit.value, thermal::sustainable(m, a.limit).value, m.ambient.value, m.resistance(),
      m.stages.size(), m.rms_k, m.held_out_rms_k);
  Table table = headed("STAGE|K/W|TIME CONSTANT|RISE NOW K");
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    table.add("{}|{:.4f}|{}|{:.1f}", i + 1, m.stages[i].resistance,
              duration_text(m.stages[i].time.value), m.stages[i].rise);
  text += to_string(table) + "\nWhat this cannot know:\n";
  for (const std::string& line : cannot_know(a)) text += "  " + line + "\n";
  return text;
}

std::string forecast_json(const ForecastAnswer& a) {
  const thermal::GpuThermalModel& m = a.model;
  const auto stage = [](Form& f, const thermal::ThermalStage& one) {
    tell(f, "resistance_k_per_w", one.resistance, "time_constant_s", one.time, "rise_k", one.rise);
  };
  return write_form([&](Form& f) {
    f.document("ThermalForecast");
    tell(f.line("  "), "now_c", a.points.back().temperature, "power_w", a.power, "settled_c",
         thermal::settled_temperature(m, a.power), "limit_c", a.limit, "time_to_limit_s", a.reached,
         "sustainable_w", thermal::sustainable(m, a.limit));
    tell(f.line("  "), "ambient_c", m.ambient, "rms_k", m.rms_k, "held_out_rms_k",
         m.held_out_rms_k);
    f.line("  ").rows("stages", m.stages, stage, {.indent = "    "});
    f.line("  ").told_list("cannot_know", cannot_know(a), {.indent = "    "});
  });
}

// What was, and what comes for as long again or until it has settled.
std::string forecast_svg(const ForecastAnswer& a) {
  forms::TimePlot plot{"Temperature of the board",
                       fmt::format("measured, then forecast at {:.0f} W", a.power.value),
                       "C",
                       {},
                       {{"measured", {}}, {"forecast", {}}},
                       {{"limit", a.limit.value}}};
  const Seconds start = a.points.front().at;
  for (const thermal::HeatPoint& point : a.points) {
    plot.seconds.push_back((point.at - start).value);
    plot.lines[0].values.push_back(point.temperature.value);
    plot.lines[1].values.push_back(point.temperature.value);
  }
  const double ahead = 3 * a.model.stages.back().time.value;
  constexpr int kPoints = 300;
  for (int i = 1; i <= kPoints; ++i) {
    const Seconds later{ahead * i / kPoints};
    plot.seconds.push_back((a.points.back().at - start + later).value);
    plot.lines[0].values.push_back(a.points.back().temperature.value);
    plot.lines[1].values.push_back(thermal::temperature_after(a.model, a.power, later).value);
  }
  return forms::time_plot_svg(plot);
}

Result<Exit> run_forecast(Context& context, const ForecastFlags& flags) {
  const auto text = TRY(read_input(context.files, "--telemetry", flags.telemetry));
  const telemetry::Log log = TRY(telemetry::read_log(text, flags.telemetry));
  if (const auto note = telemetry::torn_note(text, flags.telemetry); !note.empty())
    complain(context, note);
  std::vector<thermal::HeatPoint> points = TRY(points_of(flags, log));
  const std::optional<Celsius> ambient =
      flags.ambient > -273 ? std::optional(Celsius{flags.ambient}) : std::nullopt;
  Result<thermal::GpuThermalModel> model = thermal::fit_thermal(points, ambient);
  if (!model) return bad_input(flags.telemetry, model.error().message);
  ForecastAnswer answer{std::move(points), *std::move(model), {}, Celsius{flags.limit}, {}};
  answer.power = Watts{flags.power >= 0 ? flags.power : recent_power(answer.points)};
  answer.reached = thermal::time_to_reach(answer.model, answer.power, answer.limit);
  return finish(context, flags.output,
                flags.output.json()  ? forecast_json(answer)
                : flags.output.svg() ? forecast_svg(answer)
                                     : forecast_text(answer));
}

Command add_thermal_forecast(CLI::App& thermal) {
  auto [command, flags] = adding<ForecastFlags>(
      thermal, "forecast", "Forecast when a board overheats, and which power it can sustain");
  takes(*command, "--telemetry", needed(flags->telemetry), "--gpu-index",
        within(flags->gpu, 0, 4096), "--sensor-of", one_of(flags->sensor, {"gpu", "memory"}),
        "--limit", within(flags->limit, 0, 150), "--watts", limited(flags->power, 0, 1e5), "--air",
        limited(flags->ambient, -40, 100));
  return runs(command, flags, run_forecast, {"text", "json", "svg"},
              "partita thermal forecast --telemetry gpu.jsonl --limit 83 --watts 350");
}

struct DtmFlags {
  dtm::DtmNames names;
  std::string caps_of = "rise";
  double idle_share = 40, memory = 10, power_error = 0;
  bool histogram = false;
  Output output;
};

// Why a cap is or is not met, in a few words.
std::string verdict_of(const dtm::StatedDtm& study, const dtm::StatedDtmRun& run) {
  if (!run.finished) return "given up";
  if (!run.can_be_met)
    return run.cap_c < study.idle_c ? "no clock can: idle is hotter" : "no clock can";
  if (run.over_cap_s <= 0) return "met";
  if (run.worst_over_k < 0.1) return "met within 0.1 K";
  return fmt::format("over {:.0f} % of the time, {:.1f} K", 100 * run.over_cap_s / run.seconds,
                     run.worst_over_k);
}

// The plateau: what no clock can meet.
std::string plateau_text(const dtm::StatedDtm& study) {
  long hopeless = 0, below_idle = 0, below_ambient = 0;
  for (const dtm::StatedDtmRun& run : study.runs) {
    hopeless += !run.can_be_met;
    below_idle += run.cap_c < study.idle_c;
    below_ambient += run.cap_c < study.ambient_c;
  }
  std::string text = fmt::format(
      "\nAround the chip it has {:.1f} C; idle power alone warms the hottest block to {:.1f} C.\n",
      study.ambient_c, study.idle_c);
  if (hopeless == 0) return text + "Every cap can be met at the lowest clock.\n";
  text += fmt::format(
      "{} of {} caps are below what the chip has at the lowest clock, so no governor meets them: "
      "it stays\nat the lowest clock, and a still lower cap costs the same (a plateau). {} of them "
      "are below idle,\n{} below the surroundings.",
      hopeless, study.runs.size(), below_idle, below_ambient);
  if (study.caps_of == "celsius")
    text +=
        " Per cent of degrees Celsius also take from the surroundings' share;\n--caps-of rise "
        "takes from what the work adds.";
  return text + "\n";
}

std::string tenants_text(const dtm::StatedDtm& study) {
  Table table = headed("WORKLOAD|GOVERNOR|CAP|TENANT|JOULES|THROTTLED BY");
  for (const dtm::StatedDtmRun& run : study.runs)
    for (const dtm::StatedTenantHeat& tenant : run.tenants)
      table.add("{}|{}|-{:g} %|{}|{:.1f}|{:.1f} %", run.workload, run.governor, run.percent,
                tenant.name, tenant.energy_j, 100 * tenant.throttle_share);
  if (table.rows.empty()) return "";
  return "\nWhose heat it was: energy of the tenants' blocks above idle, and their part in the "
         "hottest block's\nrise while work was lost to throttling:\n" +
         to_string(table);
}

std::string histogram_text(const dtm::StatedDtm& study) {
  Table table = headed("WORKLOAD|GOVERNOR|CAP|MHz: SHARE OF THE TIME");
  for (const dtm::StatedDtmRun& run : study.runs) {
    std::string clocks;
    for (const dtm::StatedClockShare& clock : run.clocks)
      clocks +=
          fmt::format("{}{:g}: {:.0f} %", clocks.empty() ? "" : ", ", clock.mhz, 100 * clock.share);
    table.add("{}|{}|-{:g} %|{}", run.workload, run.governor, run.percent, clocks);
  }
  return "\n" + to_string(table);
}

std::string dtm_text(const dtm::StatedDtm& study, bool histogram) {
  Table works = headed("WORKLOAD|SECONDS|JOULES|MEMORY|MAX C|AT LOWEST CLOCK C");
  for (const dtm::StatedHotWork& work : study.workloads)
    works.add("{}|{:.2f}|{:.0f}|{:.0f} %|{:.1f}|{:.1f}", work.name, work.seconds, work.energy_j,
              100 * work.memory_share, work.max_c, work.lowest_c);
  Table runs = headed("WORKLOAD|GOVERNOR|CAP|CAP C|SLOWER|ENERGY|MAX C|MEAN C|THE CAP IS");
  for (const dtm::StatedDtmRun& run : study.runs)
    runs.add("{}|{}|-{:g} %|{:.1f}|{:.2f}x|{:.2f}x|{:.1f}|{:.1f}|{}", run.workload, run.governor,
             run.percent, run.cap_c, run.slowdown, run.energy_ratio, run.max_c, run.mean_c,
             verdict_of(study, run));
  std::string text = "At the highest clock:\n" + to_string(works) +
                     "\nUnder caps that lie so far below each workload's own maximum:\n" +
                     to_string(runs) + plateau_text(study) + tenants_text(study);
  if (histogram) text += histogram_text(study);
  return text;
}

Result<Exit> run_thermal_dtm(Context& context, DtmFlags flags) {
  flags.names.celsius = flags.caps_of == "celsius";
  flags.names.idle_clocked = flags.idle_share / 100;
  flags.names.memory_share = flags.memory / 100;
  flags.names.power_error = flags.power_error / 100;
  if (flags.output.svg()) {
    const auto picture = TRY(dtm::dtm_picture(context.files, flags.names));
    return finish(context, flags.output, picture);
  }
  const auto study = TRY(dtm::dtm_study(context.files, flags.names));
  return finish(context, flags.output,
                flags.output.json() ? dtm::dtm_json(study) : dtm_text(study, flags.histogram));
}

Command add_thermal_dtm(CLI::App& thermal) {
  auto [command, flags] = adding<DtmFlags>(
      thermal, "dtm",
      "Simulate throttling: what a temperature cap costs, and whose heat causes it");
  add_thermal_flags(*command, flags->names.thermal);
  command->get_option("--power")->required(false);
  takes(*command, "--workload", flags->names.workload, "--row-s",
        within(flags->names.row_s, 1e-6, 1e4), "--work-s", limited(flags->names.work_s, 1e-3, 1e5),
        "--memory-part", within(flags->memory, 0, 100), "--idle-watts",
        within(flags->names.idle_watts, 0, 2000), "--idle-clocked",
        within(flags->idle_share, 0, 100), "--tenant", flags->names.tenants, "--governor",
        one_of(flags->names.governor, {"step", "pid", "predictive", "all"}));
  flag(*command, "--caps", flags->names.caps)->default_str("10,20,30,40,50");
  takes(*command, "--caps-of", one_of(flags->caps_of, {"rise", "celsius"}), "--epoch-ms",
        within(flags->names.epoch_ms, 0.001, 1e4), "--clocks", flags->names.clocks, "--volts",
        flags->names.volts, "--hysteresis", within(flags->names.hysteresis_k, 0, 50), "--sensor",
        within(flags->names.sensor_k, 0, 10), "--power-error", within(flags->power_error, -90, 500),
        "--histogram", flags->histogram);
  return runs(
      command, flags, run_thermal_dtm, {"text", "json", "svg"},
      "partita thermal dtm --caps-of celsius --governor all\n"
      "partita thermal dtm --workload compute --tenant a=SM0,SM1 --tenant b=SM2,SM3,SM4,SM5\n"
      "partita thermal dtm --workload compute --caps 20 --tenant a=SM0,SM1 --tenant b=SM2 "
      "--format svg -o dtm.svg\n"
      "partita thermal dtm --flp chip.flp --package chip.config --power chip.ptrace --memory-part "
      "30");
}

}  // namespace

// Blocks as outlines of a map over the die.
std::vector<raster::Outline> outlines_of(const thermal::Floorplan& plan) {
  std::vector<raster::Outline> outlines;
  for (const thermal::Block& b : plan.blocks)
    outlines.push_back({b.name, b.left / plan.width, 1 - (b.bottom + b.height) / plan.height,
                        b.width / plan.width, b.height / plan.height});
  return outlines;
}

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
