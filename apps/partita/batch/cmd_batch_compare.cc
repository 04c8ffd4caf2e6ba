
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
  const hw::Catalogue catalogue = TRY(decide::load_catalogue(context.files, flags.gpus.catalogue));
  return forms::schedules_svg(decide::schedules_of(comparison), catalogue);
}

Result<Exit> run_batch_compare(Context& context, const BatchCompareFlags& flags) {
  const auto gpus = TRY(decide::load_gpus(context.files, flags.gpus));
  const auto problem = TRY(decide::load_batch(context.files, flags.tasks, gpus));
  const auto contestants = TRY(decide::parse_batch_contestants(
      "--schedulers",
      flags.schedulers.empty() ? decide::default_contestants(problem) : flags.schedulers));
  warn_about(context, flags.tasks, problem);
  const auto comparison = TRY(
      decide::compare_schedulers(problem, contestants, flags.search, Progress(context).watch()));
  bool any = false;
  for (const decide::BatchStanding& standing : comparison.standings) {
    any = any || standing.made.plan;
    if (const auto wrong = decide::misuse("--schedulers", standing.made.refusals))
      return failed(*wrong);
  }
  const auto content = TRY(render(context, flags, problem, comparison));
  return finish(context, flags.output, content, any ? Exit::done : Exit::no);
}

}  // namespace

Command add_batch_compare(CLI::App& batch) {
  auto [command, flags] = adding<BatchCompareFlags>(
      batch, "compare",
      "Compare schedulers: makespan, proof, reconfigurations, utilisation, CPU time");
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
