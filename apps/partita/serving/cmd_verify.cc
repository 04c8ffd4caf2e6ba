#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "forms/reason_forms.h"
#include "serving/inputs.h"
#include "serving/judge.h"
#include "serving/planning.h"

namespace partita::cli {
namespace {

struct VerifyFlags {
  PlanFlags plan;
  Output output;
};

Result<Exit> run_verify(Context& context, const VerifyFlags& flags) {
  const Result<Judged> judged = judge(context, flags.plan);
  if (!judged) return failed(judged.error());
  const bool ok = judged->violations.empty();
  std::string content;
  if (flags.output.format == "json") {
    content = forms::verdict_json(judged->violations);
  } else if (ok) {
    content = fmt::format("ok: {} services on {} GPUs, no violation ({})\n",
                          judged->problem.services.size(), judged->plan.gpus.size(),
                          plan::to_string(judged->problem.rule));
  } else {
    content =
        reasons_text(fmt::format("{}: {} violations:", flags.plan.plan, judged->violations.size()),
                     judged->violations);
    content += "\n";
  }
  if (auto written = deliver(context, flags.output, content); !written) {
    return failed(written.error());
  }
  return ok ? Exit::done : Exit::no;
}

}  // namespace

Command add_verify(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "verify", "Judge a plan, whoever made it, against the services, profiles and hardware rules");
  auto flags = std::make_shared<VerifyFlags>();
  add_plan_flags(*command, flags->plan);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita verify plan.json --services services.yaml --profiles profiles.csv");
  return {command, [flags](Context& context) { return run_verify(context, *flags); }};
}

}  // namespace partita::cli
