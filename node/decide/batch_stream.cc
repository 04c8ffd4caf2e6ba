#include "decide/batch_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "decide/made.h"
#include "planners/batch/live_run.h"

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

// Submissions only bring what they may come after, as an arrival can know.
Result<void> check_order(const Stream& stream) {
  std::set<std::string> known;
  for (const Submission& submission : stream.submissions) {
    for (const plan::Task& task : submission.tasks) known.insert(task.name);
    for (const plan::Task& task : submission.tasks) {
      for (const std::string& name : task.after) {
        if (known.contains(name)) continue;
        return bad_input(task.name,
                         fmt::format("comes after '{}', which has not been submitted", name));
      }
    }
  }
  return {};
}

Result<Streamed> judged(const Stream& stream, plan::BatchSchedule schedule) {
  const plan::BatchProblem& problem = stream.problem;
  const auto forest = TRY(planners::batch::make_forest(problem));
  schedule.lower_bound =
      std::min(schedule.makespan, problem.tasks.empty() ? 0 : planners::batch::area_bound(forest));
  double area = 0;
  for (int t = 0; t < forest.tasks; ++t)
    area += static_cast<double>(planners::batch::least_area(forest, t));
  const std::string who = fmt::format("scheduler '{}' made a schedule", schedule.scheduler);
  const auto made = TRY(make_and_judge(who, problem, std::optional(std::move(schedule)), {}));
  return Streamed{*made.plan, stream.submissions.size(), area / forest.columns()};
}

// As the queue plans while it runs (planners/batch/live.h).
Result<Streamed> play_online(const Stream& stream, std::uint64_t seed,
                             const std::function<double()>& cpu_ms) {
  TRY(check_order(stream));
  planners::batch::LiveRunOptions options;
  options.planning.seed = seed;
  const double before = cpu_ms ? cpu_ms() : 0;
  auto run = TRY(planners::batch::run_live(stream.problem, stream.problem, options));
  run.schedule.stats.scheduling_ms = cpu_ms ? cpu_ms() - before : 0;
  return judged(stream, std::move(run.schedule));
}

}  // namespace

Result<Stream> stream_of(std::vector<plan::BatchProblem> batches, const GpuList& gpus,
                         bool online) {
  make_names_unique(batches);
  Stream stream{{{}, gpus.models, gpus.gpus, gpus.reconfigurer}, {}, online};
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
  if (stream.online) return play_online(stream, options.seed, cpu_ms);
  const plan::BatchProblem& problem = stream.problem;
  auto scheduler = OnlineScheduler::create(problem, options);
  if (!scheduler) return bad_input("--gpu", scheduler.error().message);
  const double before = cpu_ms ? cpu_ms() : 0;
  for (const Submission& submission : stream.submissions) {
    const bool last = &submission == &stream.submissions.back();
    const auto submitted =
        scheduler->submit(submission.tasks, submission.now, last ? Outlook::last : Outlook::more);
    if (!submitted) return failed(submitted.error());
  }
  const double spent = cpu_ms ? cpu_ms() - before : 0;
  plan::BatchSchedule schedule = scheduler->schedule();
  schedule.stats.scheduling_ms = spent;
  return judged(stream, std::move(schedule));
}

}  // namespace partita::decide
