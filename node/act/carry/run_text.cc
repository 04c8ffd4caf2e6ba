#include "act/carry/run_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/index.h"
#include "base/table.h"
#include "base/terminal.h"
#include "plan/batch.h"

namespace partita::carry {
namespace {

using exec::Nanos;
using exec::TaskStatus;

std::string seconds_text(Nanos time) { return fmt::format("{:.3f}", plan::seconds(time).value); }

constexpr int kNamedRunning = 3;  // tasks that a line of progress names

// "timed out" for timed_out.
std::string words_of(TaskStatus status) {
  std::string words = exec::to_string(status);
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string place_of(const exec::Script& script, const exec::Visit& visit) {
  const std::string place = exec::place_text(visit);
  if (script.gpus.size() == 1) return place;
  return fmt::format("{} on GPU {}", place, script.gpus[at(visit.gpu)].device);
}

std::vector<std::string> row_of(const exec::Script& script, const exec::ScriptTask& task,
                                const exec::TaskRun& run) {
  const bool ran = exec::ran(run.status);
  const double deviation = exec::deviation_percent(task.planned.end, run.end);
  return {task.name,
          place_of(script, script.visits[at(task.visit)]),
          seconds_text(task.planned.end),
          ran ? seconds_text(run.end) : "-",
          run.status == TaskStatus::finished ? fmt::format("{:+.2f}", deviation) : "-",
          words_of(run.status)};
}

Table table_of(const exec::Script& script, const exec::RunReport& report, bool simulated) {
  std::vector<std::tuple<Nanos, std::size_t>> order;
  for (std::size_t t = 0; t < script.tasks.size(); ++t)
    order.emplace_back(script.tasks[t].planned.end, t);
  std::ranges::sort(order);
  Table table{{"TASK", "INSTANCE", "PLANNED END s", simulated ? "SIMULATED END s" : "REAL END s",
               "DEVIATION %", "STATUS"},
              {}};
  for (const auto& [end, t] : order)
    table.rows.push_back(row_of(script, script.tasks[t], report.tasks[t]));
  return table;
}

std::string task_trouble(const exec::ScriptTask& task, const exec::TaskRun& run) {
  return fmt::format("task {}: {}, {}", task.name, words_of(run.status), run.reason);
}

}  // namespace

std::string run_text(const exec::Script& script, const exec::RunReport& report,
                     const exec::RunNames& names) {
  std::string text = to_string(table_of(script, report, names.simulated_clock));
  const double deviation = exec::deviation_percent(script.planned_makespan, report.makespan());
  text += fmt::format("\nend of the last task: {} s planned, {} s {}{}\n",
                      seconds_text(script.planned_makespan), seconds_text(report.makespan()),
                      names.simulated_clock ? "simulated" : "real",
                      report.all_finished() ? fmt::format(" ({:+.2f} %)", deviation) : "");
  const int finished = report.count(TaskStatus::finished);
  text += fmt::format("{} of {} finished", finished,
                      count_text(static_cast<long>(script.tasks.size()), "task"));
  if (report.resumed > 0)
    text += fmt::format(", {} of them before this resumption", report.resumed);
  text += "\n";
  for (std::size_t t = 0; t < script.tasks.size(); ++t)
    if (!report.tasks[t].reason.empty())
      text += task_trouble(script.tasks[t], report.tasks[t]) + "\n";
  for (const std::string& refusal : report.refusals) text += "refused: " + refusal + "\n";
  for (const std::string& left : report.left) text += "left behind: " + left + "\n";
  return text;
}

std::string progress_text(const exec::Script& script, const exec::RunReport& report, Nanos now) {
  std::string running;
  int named = 0;
  for (std::size_t t = 0; t < script.tasks.size(); ++t) {
    if (report.tasks[t].status != TaskStatus::running || ++named > kNamedRunning) continue;
    running += fmt::format("{}{} {}", named > 1 ? ", " : "", script.tasks[t].name,
                           exec::place_text(script.visits[at(script.tasks[t].visit)]));
  }
  if (named > kNamedRunning) running += fmt::format(" and {} more", named - kNamedRunning);
  const auto tenths = [](Nanos time) { return static_cast<double>(time) / exec::kSecond; };
  return fmt::format("{} of {} tasks, {:.1f} s of {:.1f} s: {}", report.count(TaskStatus::finished),
                     script.tasks.size(), tenths(now), tenths(script.planned_makespan),
                     running.empty() ? "waiting" : running);
}

std::vector<std::string> news(const exec::Script& script, const exec::RunReport& before,
                              const exec::RunReport& now) {
  std::vector<std::string> lines;
  for (std::size_t t = 0; t < script.tasks.size(); ++t) {
    const exec::TaskRun& then = before.tasks[t];
    const exec::TaskRun& run = now.tasks[t];
    if (run.attempts > 1 && run.attempts != then.attempts)
      lines.push_back(fmt::format("task {}: attempt {}", script.tasks[t].name, run.attempts));
    const bool over = run.status != TaskStatus::pending && run.status != TaskStatus::running &&
                      run.status != TaskStatus::finished;
    if (over && run.status != then.status) lines.push_back(task_trouble(script.tasks[t], run));
  }
  for (std::size_t g = 0; g < script.gpus.size(); ++g) {
    for (std::size_t c = 0; c < script.gpus[g].changes.size(); ++c) {
      const exec::ChangeRun& run = now.changes[g][c];
      if (!run.reason.empty() && run.reason != before.changes[g][c].reason)
        lines.push_back(run.reason);
    }
  }
  return lines;
}

}  // namespace partita::carry
