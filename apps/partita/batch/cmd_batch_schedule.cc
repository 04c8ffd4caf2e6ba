#include <fmt/format.h>

#include <memory>

#include "batch/batch_commands.h"
#include "batch/batch_inputs.h"
#include "batch/batch_robust.h"
#include "batch/batch_scheduling.h"
#include "commands.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "forms/reason_forms.h"
#include "serving/planning.h"

namespace partita::cli {
namespace {

struct BatchScheduleFlags {
  std::string tasks;
  GpuFlags gpus;
  std::string scheduler = "best";
  SearchFlags search;
  double spread = 0;  // 0: task times are taken as exact
  bool explain = false;
  bool require = false;
  Output output;
};

Result<Exit> refuse(Context& context, const BatchScheduleFlags& flags,
                    const std::vector<plan::Reason>& reasons) {
  complain(context, reasons_text("there is no such schedule:", reasons));
  // -o names the place of a schedule; a refusal is never written there.
  if (flags.output.format == "json") {
    auto written = deliver(context, {}, forms::refusal_json(reasons));
    if (!written) return failed(written.error());
  }
  return Exit::no;
}

// The schedule, and what was simulated to choose it when --spread was given.
Result<Robust> make(Context& context, const BatchScheduleFlags& flags, const planners::batch::Chosen& chosen,
                    const plan::BatchProblem& problem) {
  if (flags.spread > 0) {
    return make_robust_schedule(context, chosen, problem, flags.search, flags.spread);
  }
  return Robust{make_schedule(context, chosen, problem, flags.search), {}, {}, {}};
}

Result<std::string> render(Context& context, const BatchScheduleFlags& flags, const plan::BatchProblem& problem,
                           const Robust& robust) {
  const plan::BatchSchedule& schedule = *robust.made.schedule;
  const std::vector<plan::LateTask> late = plan::late_tasks(problem, schedule);
  if (flags.output.format == "json") {
    return flags.spread > 0 ? forms::schedule_json(schedule, late, chosen_for(robust))
                            : forms::schedule_json(schedule, late);
  }
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.gpus.catalogue);
  if (!catalogue) return failed(catalogue.error());
  if (flags.output.format == "svg") return forms::schedules_svg({schedule}, *catalogue);
  forms::GanttOptions gantt;
  gantt.colour = context.colour && flags.output.file.empty();
  if (flags.output.file.empty()) gantt.width = context.width;
  gantt.explain = flags.explain;
  const std::string text = forms::schedule_text(schedule, late, *catalogue, gantt);
  if (flags.spread == 0) return text;
  return text + fmt::format("\n{} runs with task times of {:.4g} % spread:\n{}",
                            robust.options.runs, flags.spread * 100, robust.candidates);
}

Result<Exit> run_batch_schedule(Context& context, const BatchScheduleFlags& flags) {
  const Result<planners::batch::Chosen> chosen = choose_scheduler("--scheduler", flags.scheduler);
  if (!chosen) return failed(chosen.error());
  const Result<GpuList> gpus = load_gpus(context, flags.gpus);
  if (!gpus) return failed(gpus.error());
  const Result<plan::BatchProblem> problem = load_batch(context, flags.tasks, *gpus);
  if (!problem) return failed(problem.error());
  warn_about(context, flags.tasks, *problem);
  const Result<Robust> robust = make(context, flags, *chosen, *problem);
  if (!robust) return failed(robust.error());
  const Scheduled& made = robust->made;
  if (const auto wrong = misuse("--scheduler", made.refusals)) return failed(*wrong);
  if (!made.schedule) return refuse(context, flags, made.refusals);
  if (!made.violations.empty()) return failed(internal_error(flags.scheduler, made.violations));
  const Result<std::string> content = render(context, flags, *problem, *robust);
  if (!content) return failed(content.error());
  if (auto written = deliver(context, flags.output, *content); !written) {
    return failed(written.error());
  }
  const std::string late = late_text(*problem, *made.schedule);
  if (!late.empty()) complain(context, late);
  return flags.require && !late.empty() ? Exit::no : Exit::done;
}

}  // namespace

Command add_batch_schedule(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "schedule", "Schedule tasks: who runs on which instance when, created and destroyed when");
  auto flags = std::make_shared<BatchScheduleFlags>();
  add_tasks_flag(*command, flags->tasks);
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  command
      ->add_option("--scheduler", flags->scheduler,
                   "Who schedules; `partita batch schedulers` lists them")
      ->type_name("SCHEDULER")
      ->default_str(flags->scheduler);
  add_search_flags(*command, flags->search);
  within(command->add_option("--spread", flags->spread,
                             "Choose among several schedules the one that ends first on average "
                             "when task times have this standard deviation, as a share of the "
                             "planned ones"),
         0, sim::kMaxSpread)
      ->type_name("SHARE");
  command->add_flag("--require", flags->require, "Exit 1 when a task misses its deadline");
  command->add_flag("--explain", flags->explain, "Say why the schedule is as it is (text)");
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita batch schedule --tasks data/batches/rodinia-a30.csv --gpu A30\n"
      "partita batch schedule --tasks tasks.csv --gpu A100-80GB --gpus 4 --format json -o s.json\n"
      "partita batch schedule --tasks tasks.csv --gpu H100-80GB-SXM5:2,A30 --format svg -o s.svg");
  return {command, [flags](Context& context) { return run_batch_schedule(context, *flags); }};
}

}  // namespace partita::cli
