#include <fmt/format.h>


#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/reasons.h"
#include "decide/simulate.h"
#include "flags.h"
#include "progress.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

struct BatchSimulateFlags {
  decide::ScheduleFiles schedule;
  sim::BatchOptions options;
  Output output;
};

Result<Exit> run_batch_simulate(Context& context, const BatchSimulateFlags& flags) {
  const auto [problem, verdict] = TRY(decide::load_schedule(context.files, flags.schedule));
  if (!verdict) {
    complain(context, decide::reasons_text(flags.schedule.schedule + ": the schedule is broken:",
                                           verdict.error().violations));
    return Exit::no;
  }
  const auto timed =
      TRY(decide::simulate(problem, *verdict, flags.options, Progress(context).watch().cpu_ms));
  const Result<std::string> content =
      wants_document(flags.output)
          ? document_as(flags.output,
                        sim::report_json(timed.report, flags.options, timed.events_per_second))
          : sim::report_text(timed.report, flags.options);
  return content ? finish(context, flags.output, *content) : failed(content.error());
}

CLI::Option* add_spread(CLI::App& command, const char* name, double& value) {
  return within(flag(command, name, value), 0, sim::kMaxSpread)
      ->default_str(fmt::format("{}", value));
}

}  // namespace

Command add_batch_simulate(CLI::App& batch) {
  auto [command, flags] = adding<BatchSimulateFlags>(
      batch, "simulate",
      "Run a schedule many times with task times that differ from the planned ones");
  add_schedule_flags(*command, flags->schedule);
  add_spread(*command, "--spread", flags->options.spread);
  add_spread(*command, "--reconfiguration-spread", flags->options.reconfiguration_spread);
  within(flag(*command, "--runs", flags->options.runs), 1, sim::kMaxRuns)
      ->default_str(fmt::format("{}", flags->options.runs));
  add_seed(*command, flags->options.seed);
  add_output(*command, flags->output, {"text", "json", "csv"});
  command->footer("partita simulate schedule.json --tasks tasks.csv --spread 0.1 --runs 1000");
  return {command, [flags](Context& context) { return run_batch_simulate(context, *flags); }};
}

}  // namespace partita::cli
