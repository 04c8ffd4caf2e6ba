#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "reasons.h"
#include "serving/inputs.h"

namespace partita::cli {
namespace {

struct VerifyFlags {
  PlanFlags plan;
  Output output;
};

Result<Exit> run_verify(Context& context, const VerifyFlags& flags) {
  const auto judged = decide::load_judged_plan(context.files, flags.plan.plan, flags.plan.problem);
  if (!judged) return failed(judged.error());
  const auto& [problem, verdict] = *judged;
  say_doubts(context, problem, flags.plan.problem);
  if (verdict) say_predictions(context, flags.plan.plan, **verdict);
  const std::string ok = verdict ? fmt::format("ok: {} services on {} GPUs, no violation ({})\n",
                                               problem.services.size(), (*verdict)->gpus.size(),
                                               plan::to_string(problem.rule))
                                 : std::string{};
  const bool shared = verdict && plan::shares_gpus(**verdict);
  const std::string note = shared ? fmt::format("{}\n", plan::kSharesJudged) : std::string{};
  return say_verdict(context, flags.output, flags.plan.plan, ok + note,
                     verdict ? std::vector<plan::Reason>{} : verdict.error().violations);
}

}  // namespace

Command add_verify(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "verify", "Check a plan from any tool against the services, profiles and hardware rules");
  auto flags = std::make_shared<VerifyFlags>();
  add_plan_flags(*command, flags->plan);
  add_output(*command, flags->output, {"text", "json"});
  command->footer("partita verify plan.json --services services.yaml --profiles profiles.csv");
  return {command, [flags](Context& context) { return run_verify(context, *flags); }};
}

}  // namespace partita::cli
