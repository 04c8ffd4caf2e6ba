#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/form.h"
#include "base/table.h"
#include "flags.h"
#include "forms/time_plot.h"
#include "heat/thermal_flags.h"
#include "heat/rom.h"
#include "heat/transient.h"

namespace partita::cli {
namespace {

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
  Table table{{"BLOCK", "FIRST K", "LAST K", "MEAN K", "HIGHEST K", "AT s"}, {}};
  for (std::size_t i = 0; i < answer.names.size(); ++i) {
    const BlockSummary s = summary_of(answer, i);
    table.rows.push_back({answer.names[i], fmt::format("{:.3f}", s.first),
                          fmt::format("{:.3f}", s.last), fmt::format("{:.3f}", s.mean),
                          fmt::format("{:.3f}", s.most), fmt::format("{:g}", s.most_at)});
  }
  return headline(answer, chip) + "\n\n" + to_string(table);
}

std::string transient_json(const TransientAnswer& answer, const thermal::ThermalChip& chip,
                           bool hotspot) {
  return write_form([&](Form& f) {
    f.document("ThermalTransient");
    f.told("method", answer.method);
    f.told("states", answer.states);
    f.told("hotspot_compat", hotspot);
    f.told("interval_s", answer.interval);
    f.told("ambient_k", chip.network.ambient());
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
  note_thermal(context, chip.notes);
  TransientAnswer begun;
  begun.interval = flags.interval > 0 ? flags.interval : chip.chip.config.sampling_intvl;
  begun.method = flags.method;
  begun.names = chip.network.block_names();
  const TransientAnswer answer =
      TRY(flags.method == "rom" ? by_rom(flags, chip, power, std::move(begun), start)
                                : by_integration(flags, chip, power, std::move(begun), start));
  if (!flags.ttrace.empty()) {
    const auto written =
        context.files.write_atomic(flags.ttrace, thermal::write_ttrace(traced(answer, power)));
    if (!written) return failed(written.error());
  }
  const std::string content = flags.output.json()
                                  ? transient_json(answer, chip, flags.names.hotspot_compat)
                              : flags.output.svg() ? transient_svg(answer, chip)
                                                   : transient_text(answer, chip);
  return finish(context, flags.output, content);
}

}  // namespace

Command add_thermal_transient(CLI::App& thermal) {
  auto [command, flags] = adding<TransientFlags>(
      thermal, "transient", "Temperatures over time, a sample per line of the power trace");
  add_thermal_flags(*command, flags->names);
  flag(*command, "--ttrace", flags->ttrace);
  one_of(flag(*command, "--method", flags->method,
              "rom: a reduced model, microseconds per sample; integrate: all nodes, to check the "
              "other"),
         {"rom", "integrate"})
      ->default_str(flags->method);
  within(flag(*command, "--sample-interval", flags->interval), 1e-9, 1e4);
  within(flag(*command, "--rom-tolerance", flags->tolerance), 1e-9, 1);
  within(flag(*command, "--steps", flags->steps), 1, 1000)->default_str("4");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita thermal transient --flp data/thermal/gp107.flp --config data/thermal/gp107.config "
      "--power data/thermal/gp107.ptrace --ttrace gp107.ttrace\n"
      "partita thermal transient --flp chip.flp --power chip.ptrace --interval 0.01 --format svg "
      "-o chip.svg");
  return {command, [flags](Context& context) { return run_transient(context, *flags); }};
}

}  // namespace partita::cli
