#include <fmt/ranges.h>

#include <cmath>

#include "decide/energy.h"
#include "lab_commands.h"

namespace partita::cli {
namespace {

struct RegressionFlags {
  decide::CounterNames counters;
  decide::FitNames fit;
  std::string loss = "bisquare", window = "10s";
  bool absolute = false;
  Output output;
};

void add_regression(CLI::App& command, RegressionFlags& flags) {
  file_argument(command, "COUNTERS", flags.counters.counters,
                "CSV: a row per run, columns of accesses, and what was measured: energy_j, or "
                "power_w with time_s, or power_w beside rates");
  takes(command, "--components", flags.counters.components, "--measured", flags.counters.measured,
        "--idle-w", limited(flags.counters.idle_w, 0, energy::kMaxBoardWatts), "--loss",
        one_of(flags.loss, {"bisquare", "huber", "squares"}), "--absolute", flags.absolute,
        "--prior", flags.fit.prior, "--deviation", within(flags.fit.options.deviation, 1e-6, 1e6));
}

void set_options(RegressionFlags& flags) {
  flags.fit.options.loss = flags.loss == "huber"     ? numeric::Loss::huber
                           : flags.loss == "squares" ? numeric::Loss::squares
                                                     : numeric::Loss::bisquare;
  flags.fit.options.relative = !flags.absolute;
}

std::string model_text(const energy::EnergyModel& model) {
  const char* unit = model.watts ? "W AT 1" : "J PER ACCESS";
  Table table{{"COMPONENT", unit, "+-", "+- %"}, {}};
  for (const energy::ComponentCost& cost : model.components)
    table.add(
        "{}|{:.4g}|{:.2g}|{}", cost.name, cost.joules, cost.standard_error,
        cost.joules > 0 ? fmt::format("{:.0f}", 100 * cost.standard_error / cost.joules) : "-");
  std::string out = to_string(table);
  out += fmt::format(
      "\n{} rows: mean error {:.1f} %, r2 {:.3f}; ordinary rows are off by {:.1f} %; condition "
      "{:.3g}\n",
      model.rows, 100 * model.mape, model.r2, 100 * model.residual_scale, model.condition);
  for (const energy::Outlier& outlier : model.outliers)
    out += fmt::format("outlier: {} takes {:+.0f} % more or less than the others explain\n",
                       outlier.name, 100 * outlier.residual);
  for (const std::string& note : model.notes) out += "note: " + note + "\n";
  return out;
}

Result<Exit> run_energy_fit(Context& context, RegressionFlags flags) {
  set_options(flags);
  if (flags.counters.counters.empty() == flags.counters.telemetry.empty())
    return bad_input("COUNTERS", "give a file of counters, or --telemetry");
  flags.counters.window = TRY(parse_duration("--window", flags.window));
  const auto model = TRY(decide::fit_energy(context.files, flags.counters, flags.fit));
  return finish(context, flags.output,
                flags.output.json() ? energy::model_json(model) : model_text(model));
}

Command add_energy_fit(CLI::App& energy) {
  auto [command, flags] = adding<RegressionFlags>(
      energy, "fit", "Fit the energy per access of each component to measured runs");
  add_regression(*command, *flags);
  takes(*command, "--telemetry", flags->counters.telemetry, "--window", preset(flags->window));
  return runs(command, flags, run_energy_fit, {"text", "json"},
              "partita energy fit counters.csv --format json -o model.json");
}

struct ValidationFlags : RegressionFlags {
  std::string model;
};

std::string validation_text(const energy::Validation& found) {
  Table table = headed("ROW|MEASURED|PREDICTED|ERROR %");
  for (const energy::Validation::Row& row : found.rows)
    table.add("{}|{:.4g}|{:.4g}|{:+.1f}", row.name, row.measured, row.predicted,
              100 * (row.predicted / row.measured - 1));
  return to_string(table) +
         fmt::format(
             "\n{} rows, none seen by the model that predicts it{}: mean absolute error {:.2f} %, "
             "worst {:.1f} % ({}), bias {:+.1f} %, r2 {:.3f}\n",
             found.rows.size(),
             found.parts > 0 ? fmt::format(" (left out in {} parts)", found.parts) : "",
             100 * found.mape, 100 * found.worst, found.worst_row, 100 * found.bias, found.r2);
}

Result<Exit> run_energy_validate(Context& context, ValidationFlags flags) {
  set_options(flags);
  const auto found =
      TRY(decide::validate_energy(context.files, flags.counters, flags.fit, flags.model));
  return finish(context, flags.output,
                flags.output.json() ? energy::validation_json(found) : validation_text(found));
}

Command add_energy_validate(CLI::App& energy) {
  auto [command, flags] = adding<ValidationFlags>(
      energy, "validate", "Cross-validate a model: predict each row from the others");
  add_regression(*command, *flags);
  command->get_option("COUNTERS")->required();
  flag(*command, "--model", flags->model);
  return runs(
      command, flags, run_energy_validate, {"text", "json"},
      "partita energy validate volta-sass.csv --components components.yaml --measured board_w "
      "--prior 1 --loss huber");
}

struct PredictionFlags {
  std::string model, counters;
  Output output;
};

std::string prediction_text(const energy::Prediction& found) {
  Table table{{"ROW", found.watts ? "WATTS" : "JOULES", "+-", "MEASURED", "ERROR %",
               "J PER INSTRUCTION", "MEASURED EPI"},
              {}};
  for (const energy::Prediction::Row& row : found.rows) {
    const auto shown = [](const std::optional<double>& value) {
      return value ? fmt::format("{:.4g}", *value) : std::string("-");
    };
    table.add(
        "{}|{:.4g}|{:.2g}|{}|{}|{}|{}", row.name, row.predicted, row.error, shown(row.measured),
        row.measured ? fmt::format("{:+.1f}", 100 * (row.predicted / *row.measured - 1)) : "-",
        shown(row.epi_j), shown(row.measured_epi_j));
  }
  return to_string(table);
}

Result<Exit> run_energy_predict(Context& context, const PredictionFlags& flags) {
  const auto found = TRY(decide::predict_energy(context.files, flags.model, flags.counters));
  return finish(context, flags.output,
                flags.output.json() ? energy::prediction_json(found) : prediction_text(found));
}

Command add_energy_predict(CLI::App& energy) {
  auto [command, flags] = adding<PredictionFlags>(
      energy, "predict",
      "Predict the energy of programs, and per instruction, from their counters");
  file_argument(*command, "MODEL", flags->model,
                "The model, as `energy fit --format json` writes it")
      ->required();
  file_argument(*command, "COUNTERS", flags->counters,
                "CSV with the model's columns; with instructions, joules per instruction too")
      ->required();
  add_output(*command, flags->output, {"text", "json"});
  return runs(command, flags, run_energy_predict, "partita energy predict model.json counters.csv");
}

}  // namespace

Command add_energy_models(CLI::App& app) {
  CLI::App* energy = app.add_subcommand("energy", "Models of energy: what each access costs");
  return group_of(
      energy, {add_energy_fit(*energy), add_energy_predict(*energy), add_energy_validate(*energy)});
}

}  // namespace partita::cli
