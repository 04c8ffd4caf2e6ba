#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <variant>

#include "commands.h"
#include "decide/foreign_file.h"
#include "decide/input.h"
#include "device/node_forms.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "queue/slurm/job_script.h"
#include "queue/slurm/past_jobs.h"
#include "queue/task_forms.h"

namespace partita::cli {
namespace {

struct ImportFlags {
  decide::ForeignFile source;
  double gpu_memory_gib = 0;  // 0: not said
  std::string catalogue;
  Output output;
};

Result<std::string> layout_form(const Context& context, const ImportFlags& flags,
                                const interop::Geometry& geometry, const hw::Catalogue& catalogue) {
  const device::StateDocument document = interop::to_state(geometry);
  if (flags.output.json()) return device::state_json(document.state, document.occupants);
  const bool colour = context.colour && flags.output.file.empty();
  return device::state_text(document.state, document.occupants, catalogue,
                            {.colour = colour, .width = context.width});
}

// ---- what Slurm has run, or is to run

void say_all(Context& context, const ImportFlags& flags, const std::vector<std::string>& said) {
  for (const std::string& sentence : said)
    complain(context, fmt::format("{}: {}", flags.source.file, sentence));
}

Result<std::string> past_tasks(Context& context, const ImportFlags& flags,
                               const hw::Catalogue& catalogue, const std::string& text) {
  if (flags.output.json()) return bad_input("--format", "tasks of sacct are written as CSV");
  if (flags.source.gpu.empty())
    return bad_input("--gpu", "which GPUs did the jobs run on? Their sizes are the CSV's columns");
  const auto model = catalogue.get(flags.source.gpu);
  if (!model) return bad_input("--gpu", model.error().message);
  const auto past = TRY(slurm::parse_sacct(flags.source.file, text));
  std::optional<double> memory;
  if (flags.gpu_memory_gib > 0) memory = flags.gpu_memory_gib;
  const auto tasks = TRY(slurm::tasks_of(past, **model, memory));
  say_all(context, flags, tasks.said);
  if (tasks.problem.tasks.empty())
    return bad_input(flags.source.file, "none of its jobs makes a task");
  return forms::tasks_csv(tasks.problem);
}

Result<std::string> submission(Context& context, const ImportFlags& flags,
                               const std::string& text) {
  const std::string path = std::filesystem::absolute(flags.source.file).lexically_normal().string();
  auto script = TRY(slurm::parse_job_script(flags.source.file, text, path));
  if (flags.gpu_memory_gib > 0) script.spec.memory_gib = flags.gpu_memory_gib;
  say_all(context, flags, script.said);
  return queue::submission_json(script.spec);
}

Result<Exit> run_import(Context& context, const ImportFlags& flags) {
  const auto catalogue = TRY(decide::load_catalogue(context.files, flags.catalogue));
  if (flags.source.from == "sacct" || flags.source.from == "sbatch") {
    const auto text = TRY(read_input(context.files, "FILE", flags.source.file));
    const auto made = TRY(flags.source.from == "sacct" ? past_tasks(context, flags, catalogue, text)
                                                       : submission(context, flags, text));
    Output output = flags.output;
    if (flags.source.from == "sbatch") output.format = "json";  // there is no other form of it
    return finish(context, output, made);
  }
  const auto read = TRY(decide::read_foreign(context.files, flags.source, catalogue));
  Result<std::string> content;
  if (const auto* config = std::get_if<interop::PluginConfig>(&read)) {
    content = flags.output.json() ? interop::plugin_json(*config) : interop::plugin_text(*config);
  } else {
    content = layout_form(context, flags, std::get<interop::Geometry>(read), catalogue);
  }
  if (!content) return failed(content.error());
  return finish(context, flags.output, *content);
}

}  // namespace

Command add_import(CLI::App& app) {
  auto [command, flags] =
      adding<ImportFlags>(app, "import",
                          "Read a configuration of another tool and print it, or "
                          "write a layout for apply; Slurm's jobs "
                          "as tasks, a job script as a submission to the queue");
  command
      ->add_option(
          "FILE", flags->source.file,
          "mig-parted's YAML or checkpoint, a device plugin's configuration, what sacct -P or "
          "sacct --json printed, or a job script")
      ->type_name("FILE")
      ->required();
  one_of(flag(*command, "--from", flags->source.from),
         {"mig-parted", "checkpoint", "device-plugin", "sacct", "sbatch"});
  flag(*command, "--label", flags->source.label);
  flag(*command, "--gpu", flags->source.gpu);
  within(flag(*command, "--gpus", flags->source.gpus), 1, decide::kMaxForeignGpus);
  flag(*command, "--node", flags->source.node);
  within(flag(*command, "--gpu-memory", flags->gpu_memory_gib, "Of each task of sacct and sbatch"),
         0, 1e6);
  add_catalogue(*command, flags->catalogue);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita import config.yaml --label all-balanced --gpu A100-80GB --gpus 8\n"
      "partita import checkpoint.json --node state.json --format json -o wanted.json\n"
      "partita import week.txt --from sacct --gpu A100-80GB -o tasks.csv\n"
      "partita import job.sh --from sbatch -o submission.json");
  return {command, [flags](Context& context) { return run_import(context, *flags); }};
}

}  // namespace partita::cli
