#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/append.h"
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
    append(text, "  {}  deadline {}, planned end {}, mean end {}: missed in {:.4g} % of the runs\n",
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
    text += fmt::format("{} {}  planned {}, expected {} ({}), 95 % within {}\n",
                        i == robustness.best ? "*" : " ", padded(report.scheduler, width),
                        seconds_text(report.planned), seconds_text(report.mean),
                        change_text(report.planned, report.mean), seconds_text(report.p95));
  }
  return text;
}

}  // namespace partita::sim
