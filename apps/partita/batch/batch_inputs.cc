#include "batch/batch_inputs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "decide/input.h"
#include "flags.h"
#include "forms/batch_forms.h"

namespace partita::cli {
void add_gpu_list_flags(CLI::App& command, decide::GpuNames& flags) {
  flag(command, "--gpu", flags.gpu)->required();
  add_catalogue(command, flags.catalogue);
}

void add_gpu_count_flag(CLI::App& command, decide::GpuNames& flags) {
  within(flag(command, "--gpus", flags.gpus), 1, plan::kMaxBatchGpus)
      ->default_str(fmt::format("{}", flags.gpus));
}

void add_reconfigurer_flags(CLI::App& command, decide::GpuNames& flags) {
  flag(command, "--reconfigurer", flags.reconfigurer)->capture_default_str();
  within(flag(command, "--gpus-per-node", flags.gpus_per_node), 1, plan::kMaxBatchGpus)
      ->capture_default_str();
}

void add_tasks_flag(CLI::App& command, std::string& tasks) {
  flag(command, "--tasks", tasks)->required();
}

void add_search_flags(CLI::App& command, decide::SearchOptions& flags) {
  add_seed(command, flags.seed);
  within(flag(command, "--budget", flags.budget), 1, decide::kMostBudget);
}

void add_time_flag(CLI::App& command, decide::SearchOptions& flags) {
  within(flag(command, "--time", flags.time.value), 1e-3, 1e6);
}

void add_schedule_flags(CLI::App& command, decide::ScheduleFiles& flags) {
  command
      .add_option("SCHEDULE", flags.schedule,
                  "A schedule (JSON), as `partita plan --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_tasks_flag(command, flags.tasks);
  add_catalogue(command, flags.catalogue);
}

Result<std::string> shown_schedule(Context& context, const Output& output,
                                   const std::string& catalogue, const DrawnSchedule& drawn) {
  const hw::Catalogue models = TRY(decide::load_catalogue(context.files, catalogue));
  if (output.svg()) return forms::schedules_svg({drawn.schedule}, models);
  forms::GanttOptions gantt;
  gantt.colour = context.colour && output.file.empty();
  if (output.file.empty()) gantt.width = context.width;
  gantt.explain = drawn.explain;
  return forms::schedule_text(drawn.schedule, drawn.late, models, gantt);
}

void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem) {
  for (const std::string& warning : forms::task_warnings(problem)) {
    complain(context, fmt::format("warning: {}: {}", tasks, warning));
  }
}

}  // namespace partita::cli
