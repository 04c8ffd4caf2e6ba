#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "batch/batch_commands.h"
#include "batch/batch_inputs.h"
#include "commands.h"
#include "flags.h"
#include "serving/planning.h"
#include "sim/batch.h"

namespace partita::cli {
namespace {

struct BatchSimulateFlags {
  ScheduleFlags schedule;
  sim::BatchOptions options;
  Output output;
};

Result<Exit> run_batch_simulate(Context& context, const BatchSimulateFlags& flags) {
  const Result<JudgedSchedule> judged = load_schedule(context, flags.schedule);
  if (!judged) return failed(judged.error());
  if (!judged->violations.empty()) {
    complain(context, reasons_text(flags.schedule.schedule + ": the schedule is broken:",
                                   judged->violations));
    return Exit::no;
  }
  const std::int64_t begin = context.clock.cpu_ns();
  const Result<sim::BatchReport> report =
      sim::simulate(judged->problem, judged->schedule, flags.options);
  if (!report) return failed(report.error());
  const std::int64_t spent = std::max<std::int64_t>(context.clock.cpu_ns() - begin, 1);
  const double rate = static_cast<double>(report->events) * 1e9 / static_cast<double>(spent);
  const std::string content = flags.output.format == "json"
                                  ? sim::report_json(*report, flags.options, rate)
                                  : sim::report_text(*report, flags.options);
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  return Exit::done;
}

CLI::Option* add_spread(CLI::App& command, const char* name, double& value, const char* help) {
  return within(command.add_option(name, value, help), 0, sim::kMaxSpread)
      ->type_name("SHARE")
      ->default_str(fmt::format("{}", value));
}

}  // namespace

Command add_batch_simulate(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "simulate", "Run a schedule many times with task times that differ from the planned ones");
  auto flags = std::make_shared<BatchSimulateFlags>();
  add_schedule_flags(*command, flags->schedule);
  add_spread(*command, "--spread", flags->options.spread,
             "Standard deviation of a task's time, as a share of its planned time");
  add_spread(*command, "--reconfiguration-spread", flags->options.reconfiguration_spread,
             "The same for the time of creates and destroys");
  within(command->add_option("--runs", flags->options.runs, "How many runs"), 1, sim::kMaxRuns)
      ->type_name("N")
      ->default_str(fmt::format("{}", flags->options.runs));
  add_seed(*command, flags->options.seed);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita batch simulate schedule.json --tasks tasks.csv --spread 0.1 --runs 1000");
  return {command, [flags](Context& context) { return run_batch_simulate(context, *flags); }};
}

}  // namespace partita::cli
