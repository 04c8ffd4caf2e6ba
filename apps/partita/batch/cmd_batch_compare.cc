#include <memory>

#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch_report.h"
#include "decide/input.h"
#include "flags.h"
#include "forms/batch_forms.h"
#include "progress.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

struct BatchCompareFlags {
  std::string tasks;
  decide::GpuNames gpus;
  std::string schedulers;  // empty: the standard ones
  decide::SearchOptions search;
  Output output;
};

Result<std::string> render(Context& context, const BatchCompareFlags& flags,
                           const plan::BatchProblem& problem,
                           const decide::BatchComparison& comparison) {
  if (wants_document(flags.output))
    return document_as(flags.output, decide::batch_comparison_json(problem, comparison));
  if (flags.output.format == "text") return decide::batch_comparison_text(problem, comparison);
  const Result<hw::Catalogue> catalogue =
      decide::load_catalogue(context.files, flags.gpus.catalogue);
  if (!catalogue) return failed(catalogue.error());
  return forms::schedules_svg(decide::schedules_of(comparison), *catalogue);
}

Result<Exit> run_batch_compare(Context& context, const BatchCompareFlags& flags) {
  const auto gpus = decide::load_gpus(context.files, flags.gpus);
  if (!gpus) return failed(gpus.error());
  const auto problem = decide::load_batch(context.files, flags.tasks, *gpus);
  if (!problem) return failed(problem.error());
  const auto contestants = decide::parse_batch_contestants(
      "--schedulers",
      flags.schedulers.empty() ? decide::default_contestants(*problem) : flags.schedulers);
  if (!contestants) return failed(contestants.error());
  warn_about(context, flags.tasks, *problem);
  const auto comparison =
      decide::compare_schedulers(*problem, *contestants, flags.search, Progress(context).watch());
  if (!comparison) return failed(comparison.error());
  bool any = false;
  for (const decide::BatchStanding& standing : comparison->standings) {
    any = any || standing.made.plan;
    if (const auto wrong = decide::misuse("--schedulers", standing.made.refusals))
      return failed(*wrong);
  }
  const Result<std::string> content = render(context, flags, *problem, *comparison);
  if (!content) return failed(content.error());
  return finish(context, flags.output, *content, any ? Exit::done : Exit::no);
}

}  // namespace

Command add_batch_compare(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "compare", "Compare schedulers: makespan, proof, reconfigurations, utilisation, CPU time");
  auto flags = std::make_shared<BatchCompareFlags>();
  add_tasks_flag(*command, flags->tasks);
  add_gpu_list_flags(*command, flags->gpus);
  add_gpu_count_flag(*command, flags->gpus);
  add_reconfigurer_flags(*command, flags->gpus);
  flag(*command, "--schedulers", flags->schedulers)->check([](const std::string& text) {
    return text.empty() ? std::string("give a scheduler") : std::string{};
  });
  add_search_flags(*command, flags->search);
  add_output(*command, flags->output, {"text", "json", "svg", "csv"});
  command->footer(
      "partita compare --tasks data/batches/rodinia-a30.csv --gpu A30\n"
      "partita compare --tasks tasks.csv --gpu A100-80GB --schedulers best,fixed:4g+2g+1g");
  return {command, [flags](Context& context) { return run_batch_compare(context, *flags); }};
}

}  // namespace partita::cli
