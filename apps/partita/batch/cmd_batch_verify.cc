#include <fmt/format.h>


#include "batch/batch_inputs.h"
#include "commands.h"
#include "decide/batch_report.h"
#include "flags.h"
#include "reasons.h"

namespace partita::cli {
namespace {

struct BatchVerifyFlags {
  decide::ScheduleFiles schedule;
  Output output;
};

Result<Exit> run_batch_verify(Context& context, const BatchVerifyFlags& flags) {
  const auto [problem, verdict] = TRY(decide::load_schedule(context.files, flags.schedule));
  const plan::BatchSchedule& schedule = verdict ? **verdict : verdict.error().plan;
  const auto exit = TRY(
      say_verdict(context, flags.output, flags.schedule.schedule,
                  fmt::format("ok: {}, makespan {:.3f} s, no violation\n",
                              decide::size_text(problem), plan::seconds(schedule.makespan).value),
                  verdict ? std::vector<plan::Reason>{} : verdict.error().violations));
  // Deadlines are wishes: who misses one is said, but is no violation.
  const std::string late = decide::late_text(problem, schedule);
  if (!late.empty()) complain(context, late);
  return exit;
}

}  // namespace

Command add_batch_verify(CLI::App& batch) {
  auto [command, flags] = adding<BatchVerifyFlags>(
      batch, "verify", "Check a schedule from any tool against the tasks and the hardware rules");
  add_schedule_flags(*command, flags->schedule);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita verify schedule.json --tasks tasks.csv");
  return {command, [flags](Context& context) { return run_batch_verify(context, *flags); }};
}

}  // namespace partita::cli
