#include "decide/batch_comparison.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "base/split.h"

namespace partita::decide {
namespace {

constexpr std::size_t kExactTasks = 12;

}  // namespace

Result<std::vector<BatchContestant>> parse_batch_contestants(const std::string& flag,
                                                             const std::string& text) {
  std::vector<BatchContestant> contestants;
  for (const std::string& name : split(text, ',')) {
    const planners::batch::Chosen chosen = TRY(choose_scheduler(flag, name));
    contestants.push_back({name, chosen});
  }
  return contestants;
}

std::string default_contestants(const plan::BatchProblem& problem) {
  return std::string("best,far,miso,fixed-best") +
         (problem.tasks.size() <= kExactTasks ? ",exact" : "");
}

BatchFigures figures_of(const plan::BatchProblem& problem,
                        const plan::Judged<plan::BatchSchedule>& schedule) {
  BatchFigures figures;
  for (const plan::Reconfiguration& change : schedule->reconfigurations) {
    (change.op == plan::Reconfiguration::Op::create ? figures.creates : figures.destroys) += 1;
  }
  double ends = 0, used = 0, slices = 0;
  for (const int model : problem.gpus) {
    slices += problem.models[at(model)].compute_slices;
  }
  for (const plan::ScheduledTask& task : schedule->tasks) {
    const int index = problem.gpus[at(task.gpu)];
    const hw::GpuModel& model = problem.models[at(index)];
    const auto profile = at(model.profile_index(task.profile));
    used += plan::seconds(task.end - task.begin).value * model.profiles[profile].gpcs;
    ends += plan::seconds(task.end).value;
  }
  const double horizon = plan::seconds(schedule->makespan).value;
  if (horizon > 0) figures.utilisation = used / (horizon * slices);
  if (!schedule->tasks.empty()) {
    figures.mean_end = {ends / static_cast<double>(schedule->tasks.size())};
  }
  return figures;
}

Result<BatchComparison> compare_schedulers(const plan::BatchProblem& problem,
                                           const std::vector<BatchContestant>& contestants,
                                           const SearchOptions& search, const Watch& watch) {
  BatchComparison comparison;
  for (const BatchContestant& contestant : contestants) {
    auto made = TRY(make_schedule(contestant.chosen, problem, search, watch));
    if (made.plan) {
      const plan::BatchSchedule& schedule = **made.plan;
      comparison.lower_bound = std::max(comparison.lower_bound, schedule.lower_bound);
      if (contestant.name == "far") comparison.far = schedule.makespan;
    }
    comparison.standings.push_back({contestant.name, std::move(made)});
  }
  return comparison;
}

}  // namespace partita::decide
