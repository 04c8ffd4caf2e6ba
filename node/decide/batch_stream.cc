#include "decide/batch_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "decide/made.h"

namespace partita::decide {
namespace {

using planners::batch::OnlineScheduler;
using planners::batch::Outlook;

// When a name comes twice, every task and predecessor is called N/NAME.
void make_names_unique(std::vector<plan::BatchProblem>& batches) {
  std::set<std::string> names;
  bool unique = true;
  for (const plan::BatchProblem& batch : batches) {
    for (const plan::Task& task : batch.tasks) unique = names.insert(task.name).second && unique;
  }
  if (unique) return;
  for (std::size_t b = 0; b < batches.size(); ++b) {
    const auto rename = [&](std::string& name) { name = fmt::format("{}/{}", b + 1, name); };
    for (plan::Task& task : batches[b].tasks) {
      rename(task.name);
      std::ranges::for_each(task.after, rename);
    }
  }
}

std::vector<Submission> by_release(std::vector<plan::Task> tasks) {
  std::vector<Submission> submissions;
  std::ranges::stable_sort(tasks, {}, &plan::Task::release);
  for (plan::Task& task : tasks) {
    if (submissions.empty() || submissions.back().now < task.release)
      submissions.push_back({{}, task.release});
    submissions.back().tasks.push_back(std::move(task));
  }
  return submissions;
}

}  // namespace

Result<Stream> stream_of(std::vector<plan::BatchProblem> batches, const GpuList& gpus,
                         bool online) {
  make_names_unique(batches);
  Stream stream{{{}, gpus.models, gpus.gpus}, {}, !online};
  std::vector<plan::Task>& all = stream.problem.tasks;
  for (plan::BatchProblem& batch : batches) {
    if (!online) stream.submissions.push_back({batch.tasks, 0});
    std::ranges::move(batch.tasks, std::back_inserter(all));
  }
  if (all.size() > plan::kMaxTasks)
    return bad_input("--tasks", fmt::format("there are at most {} tasks", plan::kMaxTasks));
  if (online) stream.submissions = by_release(all);
  return stream;
}

Result<Streamed> play(const Stream& stream, const planners::batch::StreamOptions& options,
                      const std::function<double()>& cpu_ms) {
  const plan::BatchProblem& problem = stream.problem;
  auto scheduler = OnlineScheduler::create(problem.models, problem.gpus, options);
  if (!scheduler) return bad_input("--gpu", scheduler.error().message);
  const double before = cpu_ms ? cpu_ms() : 0;
  for (const Submission& submission : stream.submissions) {
    const bool last = stream.ends && &submission == &stream.submissions.back();
    const auto submitted =
        scheduler->submit(submission.tasks, submission.now, last ? Outlook::last : Outlook::more);
    if (!submitted) return failed(submitted.error());
  }
  const double spent = cpu_ms ? cpu_ms() - before : 0;
  plan::BatchSchedule schedule = scheduler->schedule();
  schedule.stats.scheduling_ms = spent;
  const auto forest = planners::batch::make_forest(problem);
  if (!forest) return failed(forest.error());
  schedule.lower_bound =
      std::min(schedule.makespan, problem.tasks.empty() ? 0 : planners::batch::area_bound(*forest));
  const std::string who = fmt::format("scheduler '{}' made a schedule", schedule.scheduler);
  const auto made = make_and_judge(who, problem, std::optional(std::move(schedule)), {});
  if (!made) return failed(made.error());
  return Streamed{*made->plan, stream.submissions.size(),
                  scheduler->least_area() / scheduler->columns()};
}

}  // namespace partita::decide
