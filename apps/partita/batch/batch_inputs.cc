#include "batch/batch_inputs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>

#include "flags.h"
#include "forms/batch_forms.h"
#include "verify/batch.h"

namespace partita::cli {
namespace {

constexpr char kTasksHelp[] =
    "The tasks: a CSV of task, time_s_1g, time_s_2g, ... (seconds on an instance of that size; "
    "empty where it does not fit) and optional command, release_s, deadline_s, priority, after";
constexpr char kGpuHelp[] =
    "The GPU model (`partita gpus` lists the names; A30 is enough for A30-24GB), or several with "
    "their numbers: A100-80GB:2,A30-24GB:4";
constexpr std::size_t kLateNamed = 20;

// One entry of --gpu.
struct GpuEntry {
  std::string name;
  int count = 1;
  bool counted = false;  // the number was given
};

Result<GpuEntry> parse_entry(const std::string& text) {
  GpuEntry entry;
  const std::size_t colon = text.find(':');
  entry.name = text.substr(0, colon);
  if (colon == std::string::npos) return entry;
  entry.counted = true;
  const std::string count = text.substr(colon + 1);
  const char* const end = count.data() + count.size();
  const auto [rest, error] = std::from_chars(count.data(), end, entry.count);
  if (error != std::errc{} || rest != end || entry.count < 1 || entry.count > plan::kMaxBatchGpus) {
    return bad_input("--gpu", fmt::format("'{}': '{}' is no number of GPUs (1 to {})", text, count,
                                          plan::kMaxBatchGpus));
  }
  return entry;
}

Result<std::vector<GpuEntry>> parse_entries(const GpuFlags& flags) {
  std::vector<GpuEntry> entries;
  for (const std::string& part : split(flags.gpu, ',')) {
    Result<GpuEntry> entry = parse_entry(part);
    if (!entry) return failed(entry.error());
    entries.push_back(std::move(*entry));
  }
  if (flags.gpus == 1) return entries;
  if (entries.size() > 1 || entries.front().counted) {
    return bad_input("--gpus", "--gpu already says how many GPUs there are of each model");
  }
  entries.front().count = flags.gpus;
  return entries;
}

// The list with `count` more GPUs of a model.
Result<void> add_gpus(GpuList& list, const hw::GpuModel& model, int count) {
  const auto same = std::ranges::find(list.models, model.name, &hw::GpuModel::name);
  const auto index = static_cast<int>(same - list.models.begin());
  if (same == list.models.end()) list.models.push_back(model);
  if (list.gpus.size() + static_cast<std::size_t>(count) > plan::kMaxBatchGpus) {
    return bad_input("--gpu", fmt::format("there are at most {} GPUs", plan::kMaxBatchGpus));
  }
  list.gpus.insert(list.gpus.end(), static_cast<std::size_t>(count), index);
  return {};
}

// The GPUs of a schedule; its model names become the catalogue's.
Result<GpuList> gpus_of(plan::BatchSchedule& schedule, const hw::Catalogue& catalogue,
                        const std::string& file) {
  GpuList list;
  for (std::string& name : schedule.gpu_models) {
    const Result<const hw::GpuModel*> model = catalogue.get(name);
    if (!model) return bad_input(file, model.error().message);
    name = (*model)->name;
    if (auto added = add_gpus(list, **model, 1); !added) {
      return bad_input(file, added.error().message);
    }
  }
  return list;
}

}  // namespace

void add_gpu_list_flags(CLI::App& command, GpuFlags& flags) {
  command.add_option("--gpu", flags.gpu, kGpuHelp)->type_name("GPU")->required();
  add_catalogue(command, flags.catalogue);
}

void add_gpu_count_flag(CLI::App& command, GpuFlags& flags) {
  within(command.add_option("--gpus", flags.gpus, "How many GPUs there are of the model"), 1,
         plan::kMaxBatchGpus)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags.gpus));
}

Result<GpuList> load_gpus(Context& context, const GpuFlags& flags) {
  const Result<std::vector<GpuEntry>> entries = parse_entries(flags);
  if (!entries) return failed(entries.error());
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  GpuList list;
  for (const GpuEntry& entry : *entries) {
    const Result<const hw::GpuModel*> model = catalogue->get(entry.name);
    if (!model) return bad_input("--gpu", model.error().message);
    if (auto added = add_gpus(list, **model, entry.count); !added) return failed(added.error());
  }
  return list;
}

void add_tasks_flag(CLI::App& command, std::string& tasks) {
  command.add_option("--tasks", tasks, kTasksHelp)->type_name("FILE")->required();
}

Result<plan::BatchProblem> load_batch(Context& context, const std::string& tasks,
                                      const GpuList& gpus) {
  const Result<std::string> text = read_input(context, "--tasks", tasks);
  if (!text) return failed(text.error());
  return forms::parse_tasks(tasks, *text, gpus.models, gpus.gpus);
}

void warn_about(Context& context, const std::string& tasks, const plan::BatchProblem& problem) {
  for (const std::string& warning : forms::task_warnings(problem)) {
    complain(context, fmt::format("warning: {}: {}", tasks, warning));
  }
}

void add_schedule_flags(CLI::App& command, ScheduleFlags& flags) {
  command
      .add_option("SCHEDULE", flags.schedule,
                  "A schedule (JSON), as `partita batch schedule --format json` writes it")
      ->type_name("FILE")
      ->required();
  add_tasks_flag(command, flags.tasks);
  add_catalogue(command, flags.catalogue);
}

Result<JudgedSchedule> load_schedule(Context& context, const ScheduleFlags& flags) {
  const Result<std::string> text = read_input(context, "SCHEDULE", flags.schedule);
  if (!text) return failed(text.error());
  Result<plan::BatchSchedule> schedule = forms::parse_schedule(flags.schedule, *text);
  if (!schedule) return failed(schedule.error());
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.catalogue);
  if (!catalogue) return failed(catalogue.error());
  const Result<GpuList> gpus = gpus_of(*schedule, *catalogue, flags.schedule);
  if (!gpus) return failed(gpus.error());
  Result<plan::BatchProblem> problem = load_batch(context, flags.tasks, *gpus);
  if (!problem) return failed(problem.error());
  JudgedSchedule judged{std::move(*problem), std::move(*schedule), {}};
  judged.violations = verify::verify(judged.problem, judged.schedule);
  return judged;
}

std::string size_text(const plan::BatchProblem& problem) {
  const auto counted = [](std::size_t count, const char* noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
  };
  return counted(problem.tasks.size(), "task") + " on " + counted(problem.gpus.size(), "GPU");
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
