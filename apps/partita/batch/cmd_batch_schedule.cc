#include <fmt/format.h>


#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch_report.h"
#include "decide/batch_robust.h"
#include "decide/input.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "progress.h"
#include "reasons.h"

namespace partita::cli {
namespace {

struct BatchScheduleFlags {
  std::string tasks;
  decide::GpuNames gpus;
  std::string scheduler = "best";
  decide::SearchOptions search;
  double spread = 0;  // 0: task times are taken as exact
  bool explain = false;
  bool require = false;
  Output output;
};

forms::ChosenFor chosen_for(const decide::Robust& robust) {
  return {robust.options.spread, robust.options.runs, robust.options.seed,
          plan::seconds(robust.report.mean), plan::seconds(robust.report.p95)};
}

// The schedule, and what was simulated to choose it when --spread was given.
Result<decide::Robust> make(Context& context, const BatchScheduleFlags& flags,
                            const planners::batch::Chosen& chosen,
                            const plan::BatchProblem& problem) {
  Progress progress(context);
  if (flags.spread > 0)
    return decide::make_robust_schedule(chosen, problem, flags.search, flags.spread,
                                        progress.watch());
  auto made = TRY(decide::make_schedule(chosen, problem, flags.search, progress.watch()));
  return decide::Robust{std::move(made), {}, {}, {}};
}

Result<std::string> render(Context& context, const BatchScheduleFlags& flags,
                           const plan::BatchProblem& problem, const decide::Robust& robust) {
  const plan::BatchSchedule& schedule = **robust.made.plan;
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.json()) {
    return flags.spread > 0 ? forms::schedule_json(schedule, late, chosen_for(robust))
                            : forms::schedule_json(schedule, late);
  }
  auto text =
      shown_schedule(context, flags.output, flags.gpus.catalogue, {schedule, late, flags.explain});
  if (!text || flags.output.svg() || flags.spread == 0) return text;
  return *text + fmt::format("\n{} runs with task times of {:.4g} % spread:\n{}",
                             robust.options.runs, flags.spread * 100, robust.candidates);
}

Result<Exit> run_batch_schedule(Context& context, const BatchScheduleFlags& flags) {
  const auto chosen = TRY(decide::choose_scheduler("--scheduler", flags.scheduler));
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::load_batch(context.files, flags.tasks, gpus));
  warn_about(context, flags.tasks, problem);
  const decide::Robust robust = TRY(make(context, flags, chosen, problem));
  const decide::Made<plan::BatchSchedule>& made = robust.made;
  if (const auto wrong = decide::misuse("--scheduler", made.refusals)) return failed(*wrong);
  if (!made.plan) return refuse(context, flags.output, "schedule", made.refusals);
  const std::string content = TRY(render(context, flags, problem, robust));
  TRY(deliver(context, flags.output, content));
  if (flags.search.time.value > 0 && made.budget > 0) {
    complain(context, fmt::format("--budget {} makes this schedule on any machine", made.budget));
  }
  const std::string late = decide::late_text(problem, **made.plan);
  if (!late.empty()) complain(context, late);
  return flags.require && !late.empty() ? Exit::no : Exit::done;
}

}  // namespace

Command add_batch_schedule(CLI::App& batch) {
  auto [command, flags] = adding<BatchScheduleFlags>(
      batch, "schedule",
      "Schedule tasks: which instances to create and destroy when, and what runs on them");
  add_tasks_flag(*command, flags->tasks);
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  add_reconfigurer_flags(*command, flags->gpus);
  flag(*command, "--scheduler", flags->scheduler)->default_str(flags->scheduler);
  add_search_flags(*command, flags->search);
  add_time_flag(*command, flags->search);
  within(flag(*command, "--spread", flags->spread,
              "Of several schedules the one that ends first on average is chosen"),
         0, sim::kMaxSpread)
      ->excludes(command->get_option("--time"));
  flag(*command, "--strict", flags->require);
  flag(*command, "--explain", flags->explain);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita plan --tasks data/batches/rodinia-a30.csv --gpu A30\n"
      "partita plan --tasks tasks.csv --gpu A100-80GB --gpus 4 --format json -o s.json\n"
      "partita plan --tasks tasks.csv --gpu H100-80GB-SXM5:2,A30 --format svg -o s.svg");
  return {command, [flags](Context& context) { return run_batch_schedule(context, *flags); }};
}

}  // namespace partita::cli
