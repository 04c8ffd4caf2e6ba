#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/terminal.h"
#include "base/unicode.h"
#include "sim/batch.h"

namespace partita::sim {
namespace {

double in_seconds(plan::Nanos time) { return plan::seconds(time).value; }

std::string seconds_text(plan::Nanos time) { return duration_text(in_seconds(time)); }

// "+5.1 %" of a planned makespan.
std::string change_text(plan::Nanos planned, plan::Nanos simulated) {
  if (planned <= 0) return "+0.0 %";
  return fmt::format("{:+.1f} %", 100 * (in_seconds(simulated) / in_seconds(planned) - 1));
}

std::string padded(const std::string& text, int width) {
  return text + std::string(static_cast<std::size_t>(std::max(0, width - columns(text))), ' ');
}

}  // namespace

std::string report_json(const BatchReport& report, const BatchOptions& options,
                        double events_per_second) {
  using Json = nlohmann::ordered_json;
  Json tasks = Json::array();
  for (const TaskReport& task : report.tasks) {
    Json json = {{"task", task.task},
                 {"planned_end_s", in_seconds(task.planned_end)},
                 {"mean_end_s", in_seconds(task.mean_end)}};
    if (task.deadline) {
      json["deadline_s"] = in_seconds(*task.deadline);
      json["missed"] = task.missed;
    }
    tasks.push_back(std::move(json));
  }
  const Json makespan = {{"planned", in_seconds(report.planned)},
                         {"mean", in_seconds(report.mean)},
                         {"p50", in_seconds(report.p50)},
                         {"p95", in_seconds(report.p95)},
                         {"worst", in_seconds(report.worst)}};
  const Json json = {
      {"api_version", "partita/v1"},   {"kind", "BatchReport"},
      {"scheduler", report.scheduler}, {"runs", report.makespans.size()},
      {"spread", options.spread},      {"reconfiguration_spread", options.reconfiguration_spread},
      {"makespan_s", makespan},        {"tasks", std::move(tasks)},
      {"events", report.events},       {"events_per_second", events_per_second},
      {"seed", options.seed},          {"log_hash", fmt::format("{:016x}", report.log_hash)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string report_text(const BatchReport& report, const BatchOptions& options) {
  std::string text = fmt::format(
      "{}: planned {}; {} runs, task times with {:.4g} % spread: mean {} ({}), half within {}, "
      "95 % within {}, worst {}\n",
      report.scheduler, seconds_text(report.planned), report.makespans.size(), options.spread * 100,
      seconds_text(report.mean), change_text(report.planned, report.mean), seconds_text(report.p50),
      seconds_text(report.p95), seconds_text(report.worst));
  int width = 0;
  for (const TaskReport& task : report.tasks) {
    if (task.deadline) width = std::max(width, columns(utf8(printable(task.task))));
  }
  for (const TaskReport& task : report.tasks) {
    if (!task.deadline) continue;
    fmt::format_to(
        std::back_inserter(text),
        "  {}  deadline {}, planned end {}, mean end {}: missed in {:.4g} % of the runs\n",
        padded(utf8(printable(task.task)), width), seconds_text(*task.deadline),
        seconds_text(task.planned_end), seconds_text(task.mean_end), task.missed * 100);
  }
  return text;
}

std::string robustness_text(const Robustness& robustness) {
  std::string text;
  int width = 0;
  for (const BatchReport& report : robustness.reports) {
    width = std::max(width, columns(report.scheduler));
  }
  for (std::size_t i = 0; i < robustness.reports.size(); ++i) {
    const BatchReport& report = robustness.reports[i];
    text += fmt::format(
                   "{} {}  planned {}, expected {} ({}), 95 % within {}\n",
                   i == robustness.best ? "*" : " ", padded(report.scheduler, width),
                   seconds_text(report.planned), seconds_text(report.mean),
                   change_text(report.planned, report.mean), seconds_text(report.p95));
  }
  return text;
}

}  // namespace partita::sim
