#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/form.h"
#include "base/table.h"
#include "base/terminal.h"
#include "decide/input.h"
#include "flags.h"
#include "forms/time_plot.h"
#include "heat/thermal_flags.h"
#include "heat/forecast.h"
#include "hw/telemetry/log.h"

namespace partita::cli {
namespace {

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
  if (!seen) return bad_input("--gpu", fmt::format("the log has no GPU {}", flags.gpu));
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
  Table table{{"STAGE", "K/W", "TIME CONSTANT", "RISE NOW K"}, {}};
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    table.rows.push_back({fmt::format("{}", i + 1), fmt::format("{:.4f}", m.stages[i].resistance),
                          duration_text(m.stages[i].time.value),
                          fmt::format("{:.1f}", m.stages[i].rise)});
  text += to_string(table) + "\nWhat this cannot know:\n";
  for (const std::string& line : cannot_know(a)) text += "  " + line + "\n";
  return text;
}

std::string forecast_json(const ForecastAnswer& a) {
  const thermal::GpuThermalModel& m = a.model;
  const auto stage = [](Form& f, const thermal::ThermalStage& one) {
    f.told("resistance_k_per_w", one.resistance);
    f.told("time_constant_s", one.time);
    f.told("rise_k", one.rise);
  };
  return write_form([&](Form& f) {
    f.document("ThermalForecast");
    f.line("  ").told("now_c", a.points.back().temperature);
    f.told("power_w", a.power);
    f.told("settled_c", thermal::settled_temperature(m, a.power));
    f.told("limit_c", a.limit);
    f.told("time_to_limit_s", a.reached);
    f.told("sustainable_w", thermal::sustainable(m, a.limit));
    f.line("  ").told("ambient_c", m.ambient);
    f.told("rms_k", m.rms_k);
    f.told("held_out_rms_k", m.held_out_rms_k);
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

}  // namespace

Command add_thermal_forecast(CLI::App& thermal) {
  auto [command, flags] = adding<ForecastFlags>(
      thermal, "forecast",
      "When a board gets too hot, and which power it can keep, from its telemetry");
  flag(*command, "--telemetry", flags->telemetry)->required();
  within(flag(*command, "--gpu-index", flags->gpu), 0, 4096)->default_str("0");
  one_of(flag(*command, "--sensor-of", flags->sensor), {"gpu", "memory"})
      ->default_str(flags->sensor);
  within(flag(*command, "--limit", flags->limit), 0, 150)->default_str("83");
  within(flag(*command, "--watts", flags->power), 0, 1e5);
  within(flag(*command, "--air", flags->ambient), -40, 100);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer("partita thermal forecast --telemetry gpu.jsonl --limit 83 --power 350");
  return {command, [flags](Context& context) { return run_forecast(context, *flags); }};
}

}  // namespace partita::cli
