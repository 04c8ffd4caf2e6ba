#include "decide/batch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/table.h"
#include "base/terminal.h"
#include "decide/reasons.h"
#include "forms/comparison_forms.h"

namespace partita::decide {
namespace {

constexpr std::size_t kLateNamed = 20;

// a / b, or a dash where b is unknown.
std::string ratio(plan::Nanos a, plan::Nanos b) {
  return b > 0 ? fmt::format("{:.4f}", static_cast<double>(a) / static_cast<double>(b)) : "-";
}

// Infinite where b is unknown.
double ratio_of(plan::Nanos a, plan::Nanos b) {
  return b > 0 ? static_cast<double>(a) / static_cast<double>(b)
               : std::numeric_limits<double>::infinity();
}

std::vector<std::string> row_of(const plan::BatchProblem& problem, const BatchStanding& standing,
                                const BatchComparison& comparison) {
  if (!standing.made.plan) {
    std::vector<std::string> row(11, "-");
    row[0] = standing.name;
    row[1] = "none";
    return row;
  }
  const plan::BatchSchedule& schedule = **standing.made.plan;
  const BatchFigures figures = figures_of(problem, *standing.made.plan);
  return {standing.name,
          seconds_text(schedule.makespan),
          ratio(schedule.makespan, comparison.lower_bound),
          schedule.optimal ? "yes" : "-",
          ratio(schedule.makespan, comparison.far),
          fmt::format("{}+{}", figures.creates, figures.destroys),
          fmt::format("{:.1f} %", figures.utilisation * 100),
          fmt::format("{:.3f}", figures.mean_end.value),
          fmt::format("{}", plan::late_tasks(problem, schedule).size()),
          fmt::format("{:.3f}", schedule.stats.scheduling_ms),
          "ok"};
}

forms::StatedBatchStanding stated(const plan::BatchProblem& problem, const BatchStanding& standing,
                                  const BatchComparison& comparison) {
  forms::StatedBatchStanding row{.scheduler = standing.name,
                                 .feasible = standing.made.plan.has_value(),
                                 .ok = true,
                                 .reasons = standing.made.refusals};
  if (!standing.made.plan) return row;
  const plan::BatchSchedule& schedule = **standing.made.plan;
  const BatchFigures figures = figures_of(problem, *standing.made.plan);
  row.makespan_s = plan::seconds(schedule.makespan).value;
  row.lower_bound_s = plan::seconds(schedule.lower_bound).value;
  row.optimal = schedule.optimal;
  row.ratio_to_bound = ratio_of(schedule.makespan, comparison.lower_bound);
  row.ratio_to_far = ratio_of(schedule.makespan, comparison.far);
  row.creates = figures.creates;
  row.destroys = figures.destroys;
  row.utilisation = figures.utilisation;
  row.mean_end_s = figures.mean_end.value;
  row.late = static_cast<int>(plan::late_tasks(problem, schedule).size());
  row.scheduling_ms = schedule.stats.scheduling_ms;
  return row;
}

}  // namespace

std::vector<plan::BatchSchedule> schedules_of(const BatchComparison& comparison) {
  std::vector<plan::BatchSchedule> schedules;
  for (const BatchStanding& standing : comparison.standings) {
    if (!standing.made.plan) continue;
    schedules.push_back(**standing.made.plan);
    schedules.back().scheduler = standing.name;
  }
  return schedules;
}

std::string batch_comparison_text(const plan::BatchProblem& problem,
                                  const BatchComparison& comparison) {
  Table table{{"SCHEDULER", "MAKESPAN s", "/ BOUND", "OPTIMAL", "/ FAR", "CREATE+DESTROY",
               "UTILISATION", "MEAN END s", "LATE", "CPU ms", "JUDGE"},
              {}};
  for (const BatchStanding& standing : comparison.standings) {
    table.rows.push_back(row_of(problem, standing, comparison));
  }
  std::string text = to_string(table);
  text += fmt::format("\n{}; ", size_text(problem));
  text += comparison.lower_bound > 0 ? fmt::format("no schedule takes less than {} s\n",
                                                   seconds_text(comparison.lower_bound))
                                     : "none of them proves a lower bound\n";
  for (const BatchStanding& standing : comparison.standings) {
    if (standing.made.plan) continue;
    text += fmt::format("\n{}\n",
                        reasons_text(standing.name + " has no schedule:", standing.made.refusals));
  }
  return text;
}

std::string batch_comparison_json(const plan::BatchProblem& problem,
                                  const BatchComparison& comparison) {
  forms::StatedBatchComparison stated_all{static_cast<int>(problem.tasks.size()),
                                          static_cast<int>(problem.gpus.size()),
                                          plan::seconds(comparison.lower_bound).value,
                                          {}};
  for (const BatchStanding& standing : comparison.standings)
    stated_all.schedulers.push_back(stated(problem, standing, comparison));
  return forms::batch_comparison_json(stated_all);
}

std::string size_text(const plan::BatchProblem& problem) {
  return count_text(std::ssize(problem.tasks), "task") + " on " +
         count_text(std::ssize(problem.gpus), "GPU");
}

std::string seconds_text(plan::Nanos time) {
  return fmt::format("{:.3f}", plan::seconds(time).value);
}

std::string late_text(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (late.empty()) return {};
  std::string text = fmt::format("{} of {} tasks {} deadline:", late.size(), problem.tasks.size(),
                                 late.size() == 1 ? "misses its" : "miss their");
  for (const plan::LateTask& task : late) {
    if (&task - late.data() == static_cast<std::ptrdiff_t>(kLateNamed)) {
      return text + fmt::format("\n  and {} more", late.size() - kLateNamed);
    }
    text +=
        fmt::format("\n  task {}: ends at {:.3f} s, {:.3f} s after its deadline", task.task,
                    plan::seconds(task.end).value, plan::seconds(task.end - task.deadline).value);
  }
  return text;
}

}  // namespace partita::decide
