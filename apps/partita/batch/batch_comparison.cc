#include "batch/batch_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "batch/batch_inputs.h"
#include "flags.h"
#include "forms/comparison_forms.h"
#include "serving/planning.h"
#include "table.h"

namespace partita::cli {
namespace {

constexpr std::size_t kExactTasks = 12;

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
  std::vector<std::string> row{standing.name};
  const std::size_t wrong = standing.result.violations.size();
  if (!standing.result.schedule || wrong > 0) {
    row.resize(11, "-");
    row[1] = "none";
    if (wrong > 0) row[10] = fmt::format("{} violations", wrong);
    return row;
  }
  const plan::BatchSchedule& schedule = *standing.result.schedule;
  const BatchFigures figures = figures_of(problem, schedule);
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
  const Scheduled& result = standing.result;
  forms::StatedBatchStanding row{.scheduler = standing.name,
                                 .feasible = result.schedule.has_value(),
                                 .ok = result.violations.empty()};
  if (!result.schedule || !result.violations.empty()) {
    row.reasons = result.schedule ? result.violations : result.refusals;
    return row;
  }
  const plan::BatchSchedule& schedule = *result.schedule;
  const BatchFigures figures = figures_of(problem, schedule);
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

Result<std::vector<BatchContestant>> parse_batch_contestants(const std::string& flag,
                                                             const std::string& text) {
  std::vector<BatchContestant> contestants;
  for (const std::string& name : split(text, ',')) {
    const Result<planners::batch::Chosen> chosen = choose_scheduler(flag, name);
    if (!chosen) return failed(chosen.error());
    contestants.push_back({name, *chosen});
  }
  return contestants;
}

std::string default_contestants(const plan::BatchProblem& problem) {
  return std::string("best,far,miso,fixed-best") +
         (problem.tasks.size() <= kExactTasks ? ",exact" : "");
}

BatchFigures figures_of(const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  BatchFigures figures;
  for (const plan::Reconfiguration& change : schedule.reconfigurations) {
    (change.op == plan::Reconfiguration::Op::create ? figures.creates : figures.destroys) += 1;
  }
  double ends = 0, used = 0, slices = 0;
  for (const int model : problem.gpus) {
    slices += problem.models[static_cast<std::size_t>(model)].compute_slices;
  }
  for (const plan::ScheduledTask& task : schedule.tasks) {
    const int index = problem.gpus[static_cast<std::size_t>(task.gpu)];
    const hw::GpuModel& model = problem.models[static_cast<std::size_t>(index)];
    const auto profile = static_cast<std::size_t>(model.profile_index(task.profile));
    used += plan::seconds(task.end - task.begin).value * model.profiles[profile].gpcs;
    ends += plan::seconds(task.end).value;
  }
  const double horizon = plan::seconds(schedule.makespan).value;
  if (horizon > 0) figures.utilisation = used / (horizon * slices);
  if (!schedule.tasks.empty()) {
    figures.mean_end = {ends / static_cast<double>(schedule.tasks.size())};
  }
  return figures;
}

BatchComparison compare_schedulers(Context& context, const plan::BatchProblem& problem,
                                   const std::vector<BatchContestant>& contestants,
                                   const SearchFlags& search) {
  BatchComparison comparison;
  for (const BatchContestant& contestant : contestants) {
    Scheduled result = make_schedule(context, contestant.chosen, problem, search);
    if (result.schedule && result.violations.empty()) {
      comparison.lower_bound = std::max(comparison.lower_bound, result.schedule->lower_bound);
      if (contestant.name == "far") comparison.far = result.schedule->makespan;
    }
    comparison.standings.push_back({contestant.name, std::move(result)});
  }
  return comparison;
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
    if (standing.result.schedule) continue;
    text += fmt::format(
        "\n{}\n", reasons_text(standing.name + " has no schedule:", standing.result.refusals));
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

std::vector<plan::BatchSchedule> schedules_of(const BatchComparison& comparison) {
  std::vector<plan::BatchSchedule> schedules;
  for (const BatchStanding& standing : comparison.standings) {
    if (!standing.result.schedule || !standing.result.violations.empty()) continue;
    schedules.push_back(*standing.result.schedule);
    schedules.back().scheduler = standing.name;
  }
  return schedules;
}

}  // namespace partita::cli
