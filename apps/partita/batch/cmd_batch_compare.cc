#include <algorithm>
#include <memory>

#include "batch/batch_commands.h"
#include "batch/batch_comparison.h"
#include "batch/batch_inputs.h"
#include "commands.h"
#include "forms/batch_forms.h"

namespace partita::cli {
namespace {

struct BatchCompareFlags {
  std::string tasks;
  GpuFlags gpus;
  std::string schedulers;  // empty: default_contestants
  SearchFlags search;
  Output output;
};

Result<std::string> render(Context& context, const BatchCompareFlags& flags, const plan::BatchProblem& problem,
                           const BatchComparison& comparison) {
  if (flags.output.format == "json") return batch_comparison_json(problem, comparison);
  if (flags.output.format == "text") return batch_comparison_text(problem, comparison);
  const Result<hw::Catalogue> catalogue = load_catalogue(context, flags.gpus.catalogue);
  if (!catalogue) return failed(catalogue.error());
  return forms::schedules_svg(schedules_of(comparison), *catalogue);
}

// The worst that happened. A violation is our own bug; its reasons go to standard error.
Exit conclude(Context& context, const BatchComparison& comparison) {
  Exit exit = Exit::no;
  for (const BatchStanding& standing : comparison.standings) {
    if (standing.result.schedule && exit == Exit::no) exit = Exit::done;
    if (standing.result.violations.empty()) continue;
    complain(context, to_string(internal_error(standing.name, standing.result.violations)));
    exit = Exit::environment;
  }
  return exit;
}

Result<Exit> run_batch_compare(Context& context, const BatchCompareFlags& flags) {
  const Result<GpuList> gpus = load_gpus(context, flags.gpus);
  if (!gpus) return failed(gpus.error());
  const Result<plan::BatchProblem> problem = load_batch(context, flags.tasks, *gpus);
  if (!problem) return failed(problem.error());
  const auto contestants = parse_batch_contestants(
      "--schedulers", flags.schedulers.empty() ? default_contestants(*problem) : flags.schedulers);
  if (!contestants) return failed(contestants.error());
  warn_about(context, flags.tasks, *problem);
  const BatchComparison comparison =
      compare_schedulers(context, *problem, *contestants, flags.search);
  for (const BatchStanding& standing : comparison.standings) {
    if (const auto wrong = misuse("--schedulers", standing.result.refusals)) return failed(*wrong);
  }
  const Result<std::string> content = render(context, flags, *problem, comparison);
  if (!content) return failed(content.error());
  if (auto written = deliver(context, flags.output, *content); !written) {
    return failed(written.error());
  }
  return conclude(context, comparison);
}

}  // namespace

Command add_batch_compare(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "compare", "Compare schedulers: makespan, proof, reconfigurations, utilisation, CPU time");
  auto flags = std::make_shared<BatchCompareFlags>();
  add_tasks_flag(*command, flags->tasks);
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  command
      ->add_option("--schedulers", flags->schedulers,
                   "The schedulers, separated by commas; by default best, far, miso and "
                   "fixed-best, and exact for at most 12 tasks")
      ->type_name("SCHEDULERS")
      ->check([](const std::string& text) {
        return text.empty() ? std::string("a scheduler is needed") : std::string{};
      });
  add_search_flags(*command, flags->search);
  add_output(*command, flags->output, {"text", "json", "svg"});
  command->footer(
      "partita batch compare --tasks data/batches/rodinia-a30.csv --gpu A30\n"
      "partita batch compare --tasks tasks.csv --gpu A100-80GB --schedulers best,fixed:4g+2g+1g");
  return {command, [flags](Context& context) { return run_batch_compare(context, *flags); }};
}

}  // namespace partita::cli
