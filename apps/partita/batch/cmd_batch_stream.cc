#include <fmt/format.h>


#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch_report.h"
#include "decide/batch_stream.h"
#include "decide/input.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "progress.h"

namespace partita::cli {
namespace {

using planners::batch::StreamMethod;

constexpr StreamMethod kMethods[] = {StreamMethod::trivial, StreamMethod::reverse,
                                     StreamMethod::overlap, StreamMethod::best};

struct BatchStreamFlags {
  std::vector<std::string> tasks;
  decide::GpuNames gpus;
  std::string method = "best";
  bool online = false;
  int replan = planners::batch::StreamOptions{}.replanned;
  std::uint64_t seed = 1;
  Output output;
};

std::string summary(const plan::BatchProblem& problem, const decide::Streamed& streamed) {
  const plan::BatchSchedule& schedule = *streamed.schedule;
  if (streamed.area_bound <= 0) return "";
  return fmt::format(
      "{} in {} submissions: {:.2f} % above the bound by areas; {:.3f} ms of CPU per submission\n",
      decide::size_text(problem), streamed.submissions,
      100 * (static_cast<double>(schedule.makespan) / streamed.area_bound - 1),
      schedule.stats.scheduling_ms / static_cast<double>(streamed.submissions));
}

Result<std::string> render(Context& context, const BatchStreamFlags& flags,
                           const plan::BatchProblem& problem, const plan::BatchSchedule& schedule) {
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.json()) return forms::schedule_json(schedule, late);
  return shown_schedule(context, flags.output, flags.gpus.catalogue, {schedule, late});
}

Result<Exit> run_batch_stream(Context& context, const BatchStreamFlags& flags) {
  if (flags.online && flags.method != "best")
    return bad_input("--method", "--online plans while tasks run; the others are for batches");
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  std::vector<plan::BatchProblem> batches;
  for (const std::string& file : flags.tasks) {
    auto batch = TRY(decide::load_batch(context.files, file, gpus));
    warn_about(context, file, batch);
    batches.push_back(std::move(batch));
  }
  const auto stream = TRY(decide::stream_of(std::move(batches), gpus, flags.online));
  planners::batch::StreamOptions options;
  options.replanned = flags.replan;
  options.seed = flags.seed;
  for (const StreamMethod method : kMethods) {
    if (flags.method == to_string(method)) options.method = method;
  }
  const auto streamed = TRY(decide::play(stream, options, Progress(context).watch().cpu_ms));
  const plan::BatchProblem& problem = stream.problem;
  std::string content = TRY(render(context, flags, problem, *streamed.schedule));
  if (flags.output.format == "text") content += "\n" + summary(problem, streamed);
  TRY(deliver(context, flags.output, content));
  const std::string late = decide::late_text(problem, *streamed.schedule);
  if (!late.empty()) complain(context, late);
  return Exit::done;
}

}  // namespace

Command add_batch_stream(CLI::App& batch) {
  auto [command, flags] = adding<BatchStreamFlags>(
      batch, "stream", "Schedule batches that follow each other, or tasks that arrive over time");
  flag(*command, "--tasks", flags->tasks)->required();
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  add_reconfigurer_flags(*command, flags->gpus);
  one_of(flag(*command, "--method", flags->method,
              "trivial: FAR's schedules one after the other; reverse: every second one reversed; "
              "overlap: also moves and swaps where two meet; best: Partita's own, never worse than "
              "these for a batch"),
         {"trivial", "reverse", "overlap", "best"})
      ->default_str(flags->method);
  flag(*command, "--online", flags->online);
  within(flag(*command, "--replan", flags->replan), 0, plan::kMaxTasks)
      ->default_str(fmt::format("{}", flags->replan));
  add_seed(*command, flags->seed);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita plan --tasks monday.csv --tasks tuesday.csv --gpu A100-80GB\n"
      "partita plan --tasks arrivals.csv --online --gpu A30 --format json -o "
      "schedule.json");
  return {command, [flags](Context& context) { return run_batch_stream(context, *flags); }};
}

}  // namespace partita::cli
