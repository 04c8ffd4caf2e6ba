#include <fmt/format.h>

#include <memory>

#include "batch/batch_commands.h"
#include "batch/batch_inputs.h"
#include "commands.h"
#include "forms/reason_forms.h"
#include "serving/planning.h"

namespace partita::cli {
namespace {

struct BatchVerifyFlags {
  ScheduleFlags schedule;
  Output output;
};

std::string verdict_text(const std::string& file, const JudgedSchedule& judged) {
  if (judged.violations.empty()) {
    return fmt::format("ok: {}, makespan {:.3f} s, no violation\n", size_text(judged.problem),
                       plan::seconds(judged.schedule.makespan).value);
  }
  return reasons_text(fmt::format("{}: {} violations:", file, judged.violations.size()),
                      judged.violations) +
         "\n";
}

Result<Exit> run_batch_verify(Context& context, const BatchVerifyFlags& flags) {
  const Result<JudgedSchedule> judged = load_schedule(context, flags.schedule);
  if (!judged) return failed(judged.error());
  const std::string content = flags.output.format == "json"
                                  ? forms::verdict_json(judged->violations)
                                  : verdict_text(flags.schedule.schedule, *judged);
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  // Deadlines are wishes: who misses one is said, but is no violation.
  const std::string late = late_text(judged->problem, judged->schedule);
  if (!late.empty()) complain(context, late);
  return judged->violations.empty() ? Exit::done : Exit::no;
}

}  // namespace

Command add_batch_verify(CLI::App& batch) {
  CLI::App* command = batch.add_subcommand(
      "verify", "Judge a schedule, whoever made it, against the tasks and the hardware rules");
  auto flags = std::make_shared<BatchVerifyFlags>();
  add_schedule_flags(*command, flags->schedule);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita batch verify schedule.json --tasks tasks.csv");
  return {command, [flags](Context& context) { return run_batch_verify(context, *flags); }};
}

}  // namespace partita::cli
