#include "batch/batch_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/terminal.h"
#include "flags.h"
#include "forms/batch_forms.h"

namespace partita::cli {
namespace {

constexpr char kTasksHelp[] =
    "The tasks: a CSV of task, time_s_1g, time_s_2g, ... (seconds on an instance of that size; "
    "empty where it does not fit) and optional command, release_s, deadline_s, priority, after";
constexpr char kGpuHelp[] =
    "The GPU model (`partita gpus` lists the names; A30 is enough for A30-24GB), or several with "
    "their numbers: A100-80GB:2,A30-24GB:4";
constexpr std::size_t kLateNamed = 20;

}  // namespace

void add_gpu_list_flags(CLI::App& command, decide::GpuNames& flags) {
  command.add_option("--gpu", flags.gpu, kGpuHelp)->type_name("GPU")->required();
  add_catalogue(command, flags.catalogue);
}

void add_gpu_count_flag(CLI::App& command, decide::GpuNames& flags) {
  within(command.add_option("--gpus", flags.gpus, "Number of GPUs of this model"), 1,
         plan::kMaxBatchGpus)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags.gpus));
}

void add_reconfigurer_flags(CLI::App& command, decide::GpuNames& flags) {
  command
      .add_option("--reconfigurer", flags.reconfigurer,
                  "Who creates and destroys instances, one at a time: the driver of each node, or "
                  "each GPU by itself")
      ->type_name("node|gpu")
      ->capture_default_str();
  within(command.add_option("--gpus-per-node", flags.gpus_per_node,
                            "Neighbouring GPUs of the list that are in one node"),
         1, plan::kMaxBatchGpus)
      ->type_name("N")
      ->capture_default_str();
}

void add_tasks_flag(CLI::App& command, std::string& tasks) {
  command.add_option("--tasks", tasks, kTasksHelp)->type_name("FILE")->required();
}

void add_search_flags(CLI::App& command, decide::SearchOptions& flags) {
  add_seed(command, flags.seed);
  within(command.add_option("--budget", flags.budget,
                            "Search steps that a scheduler may spend instead of its own default; "
                            "steps, not seconds, so that every machine finds the same. More "
                            "never gives a worse schedule"),
         1, decide::kMostBudget)
      ->type_name("N");
}

void add_time_flag(CLI::App& command, decide::SearchOptions& flags) {
  within(command.add_option("--time", flags.time.value,
                            "Search for about so long, and not beyond --budget where that is "
                            "given. What is found depends on the machine; the --budget that finds "
                            "it again is printed"),
         1e-3, 1e6)
      ->type_name("SECONDS");
}

void add_schedule_flags(CLI::App& command, decide::ScheduleFiles& flags) {
  command
      .add_option("SCHEDULE", flags.schedule,
                  "A schedule (JSON), as `partita batch schedule --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_tasks_flag(command, flags.tasks);
  add_catalogue(command, flags.catalogue);
}

void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem) {
  for (const std::string& warning : forms::task_warnings(problem)) {
    complain(context, fmt::format("warning: {}: {}", tasks, warning));
  }
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

}  // namespace partita::cli
