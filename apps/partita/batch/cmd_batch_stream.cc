#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>

#include "batch/batch_commands.h"
#include "batch/batch_inputs.h"
#include "batch/batch_scheduling.h"
#include "commands.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "planners/batch/stream.h"
#include "verify/batch.h"

namespace partita::cli {
namespace {

using planners::batch::OnlineScheduler;
using planners::batch::Outlook;
using planners::batch::StreamMethod;

constexpr StreamMethod kMethods[] = {StreamMethod::trivial, StreamMethod::reverse,
                                     StreamMethod::overlap, StreamMethod::best};

struct BatchStreamFlags {
  std::vector<std::string> tasks;
  GpuFlags gpus;
  std::string method = "best";
  bool online = false;
  int replan = planners::batch::StreamOptions{}.replanned;
  std::uint64_t seed = 1;
  Output output;
};

// What is submitted at one time.
struct Submission {
  std::vector<plan::Task> tasks;
  plan::Nanos now = 0;
};

struct Stream {
  plan::BatchProblem problem;  // all tasks, for the judge
  std::vector<Submission> submissions;
};

// When a name comes twice, every task and predecessor is called FILE/NAME, files from 1.
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

Result<Stream> load_stream(Context& context, const BatchStreamFlags& flags, const GpuList& gpus) {
  std::vector<plan::BatchProblem> batches;
  for (const std::string& file : flags.tasks) {
    Result<plan::BatchProblem> batch = load_batch(context, file, gpus);
    if (!batch) return failed(batch.error());
    warn_about(context, file, *batch);
    batches.push_back(std::move(*batch));
  }
  make_names_unique(batches);
  Stream stream{{{}, gpus.models, gpus.gpus}, {}};
  std::vector<plan::Task>& all = stream.problem.tasks;
  for (plan::BatchProblem& batch : batches) {
    if (!flags.online) stream.submissions.push_back({batch.tasks, 0});
    std::ranges::move(batch.tasks, std::back_inserter(all));
  }
  if (all.size() > plan::kMaxTasks) {
    return bad_input("--tasks", fmt::format("there are at most {} tasks", plan::kMaxTasks));
  }
  if (!flags.online) return stream;
  std::vector<plan::Task> arrivals = all;
  std::ranges::stable_sort(arrivals, {}, &plan::Task::release);
  for (plan::Task& task : arrivals) {
    if (stream.submissions.empty() || stream.submissions.back().now < task.release) {
      stream.submissions.push_back({{}, task.release});
    }
    stream.submissions.back().tasks.push_back(std::move(task));
  }
  return stream;
}

// The schedule of the whole stream. Files are known to end, arrivals are not.
Result<plan::BatchSchedule> play(Context& context, const BatchStreamFlags& flags, const Stream& stream,
                                 OnlineScheduler& scheduler) {
  const std::int64_t before = context.clock.cpu_ns();
  for (std::size_t s = 0; s < stream.submissions.size(); ++s) {
    const bool last = !flags.online && s + 1 == stream.submissions.size();
    const Submission& submission = stream.submissions[s];
    const auto submitted =
        scheduler.submit(submission.tasks, submission.now, last ? Outlook::last : Outlook::more);
    if (!submitted) return failed(submitted.error());
  }
  const std::int64_t spent = context.clock.cpu_ns() - before;
  plan::BatchSchedule schedule = scheduler.schedule();
  schedule.stats.scheduling_ms = static_cast<double>(spent) / 1e6;
  const auto forest = planners::batch::make_forest(stream.problem);
  if (!forest) return failed(forest.error());
  schedule.lower_bound =
      std::min(schedule.makespan, stream.problem.tasks.empty() ? 0 : area_bound(*forest));
  return schedule;
}

std::string summary(const Stream& stream, const OnlineScheduler& scheduler,
                    const plan::BatchSchedule& schedule) {
  const double bound = scheduler.least_area() / scheduler.columns();
  if (bound <= 0) return "";
  return fmt::format(
      "{} in {} submissions: {:.2f} % beyond the time that the areas alone need; {:.3f} ms of CPU "
      "per submission\n",
      size_text(stream.problem), stream.submissions.size(),
      100 * (static_cast<double>(schedule.makespan) / bound - 1),
      schedule.stats.scheduling_ms / static_cast<double>(stream.submissions.size()));
}

Result<std::string> render(Context& context, const BatchStreamFlags& flags, const plan::BatchProblem& problem,
                           const plan::BatchSchedule& schedule) {
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.format == "json") return forms::schedule_json(schedule, late);
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.gpus.catalogue);
  if (!catalogue) return failed(catalogue.error());
  if (flags.output.format == "svg") return forms::schedules_svg({schedule}, *catalogue);
  forms::GanttOptions gantt;
  gantt.colour = context.colour && flags.output.file.empty();
  if (flags.output.file.empty()) gantt.width = context.width;
  return forms::schedule_text(schedule, late, *catalogue, gantt);
}

Result<Exit> run_batch_stream(Context& context, const BatchStreamFlags& flags) {
  const Result<GpuList> gpus = load_gpus(context, flags.gpus);
  if (!gpus) return failed(gpus.error());
  const Result<Stream> stream = load_stream(context, flags, *gpus);
  if (!stream) return failed(stream.error());
  planners::batch::StreamOptions options;
  options.replanned = flags.replan;
  options.seed = flags.seed;
  for (const StreamMethod method : kMethods) {
    if (flags.method == to_string(method)) options.method = method;
  }
  Result<OnlineScheduler> scheduler = OnlineScheduler::create(gpus->models, gpus->gpus, options);
  if (!scheduler) return bad_input("--gpu", scheduler.error().message);
  const Result<plan::BatchSchedule> schedule = play(context, flags, *stream, *scheduler);
  if (!schedule) return failed(schedule.error());
  const std::vector<plan::Reason> violations = verify::verify(stream->problem, *schedule);
  if (!violations.empty()) return failed(internal_error(schedule->scheduler, violations));
  Result<std::string> content = render(context, flags, stream->problem, *schedule);
  if (!content) return failed(content.error());
  if (flags.output.format == "text") *content += "\n" + summary(*stream, *scheduler, *schedule);
  if (auto written = deliver(context, flags.output, *content); !written) {
    return failed(written.error());
  }
  const std::string late = late_text(stream->problem, *schedule);
  if (!late.empty()) complain(context, late);
  return Exit::done;
}

}  // namespace

Command add_batch_stream(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "stream", "Schedule batches that follow each other, or tasks that arrive over time");
  auto flags = std::make_shared<BatchStreamFlags>();
  command
      ->add_option("--tasks", flags->tasks,
                   "A batch, a CSV as for `partita batch schedule`; several times: one batch after "
                   "the other, each planned knowing only those before it")
      ->type_name("FILE")
      ->required();
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  one_of(command->add_option("--method", flags->method,
                             "trivial, reverse, overlap: FAR's batches one after the other, every "
                             "other one reversed, moves and swaps at the seam as well; best: "
                             "Partita's, never a worse plan for a batch than those"),
         {"trivial", "reverse", "overlap", "best"})
      ->default_str(flags->method);
  command->add_flag("--online", flags->online,
                    "A task is known only from its release_s on; what has begun is never changed");
  within(command->add_option("--replan", flags->replan,
                             "So many planned tasks that have not begun are planned anew with what "
                             "arrives (method best)"),
         0, plan::kMaxTasks)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags->replan));
  add_seed(*command, flags->seed);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita batch stream --tasks monday.csv --tasks tuesday.csv --gpu A100-80GB\n"
      "partita batch stream --tasks arrivals.csv --online --gpu A30 --format json -o "
      "schedule.json");
  return {command, [flags](Context& context) { return run_batch_stream(context, *flags); }};
}

}  // namespace partita::cli
