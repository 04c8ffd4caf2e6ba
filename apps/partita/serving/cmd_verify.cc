#include <fmt/format.h>


#include "base/input.h"
#include "commands.h"
#include "decide/day_verdict.h"
#include "flags.h"
#include "forms/day_forms.h"
#include "reasons.h"
#include "serving/inputs.h"

namespace partita::cli {
namespace {

struct VerifyFlags {
  PlanFlags plan;
  Output output;
};

Result<Exit> verify_day(Context& context, const VerifyFlags& flags, const plan::DayPlan& day) {
  const auto judged =
      TRY(decide::judge_day(context.files, flags.plan.plan, day, flags.plan.problem));
  say_doubts(context, judged.problem, flags.plan.problem);
  return say_verdict(
      context, flags.output, flags.plan.plan,
      fmt::format("ok: {} services, {} periods on {} GPUs at most, no violation\n",
                  judged.problem.services.size(), day.periods.size(), plan::most_gpus(day)),
      judged.violations);
}

Result<Exit> run_verify(Context& context, const VerifyFlags& flags) {
  const std::string& file = flags.plan.plan;
  const auto text = TRY(read_input(context.files, "PLAN", file));
  if (flags.plan.problem.at.empty())
    if (const auto day = forms::parse_day(file, text)) return verify_day(context, flags, *day);
  auto plan = decide::parse_plan_at(file, text, flags.plan.problem.at);
  if (!plan) return failed(plan.error());
  const auto [problem, verdict] =
      TRY(decide::judge_plan(context.files, file, *std::move(plan), flags.plan.problem));
  say_doubts(context, problem, flags.plan.problem);
  if (verdict) say_predictions(context, flags.plan.plan, **verdict);
  const std::string ok =
      verdict ? fmt::format("ok: {} on {}, no violation ({})\n",
                            count_text(std::ssize(problem.services), "service"),
                            count_text(std::ssize((*verdict)->gpus), "GPU"),
                            plan::to_string(problem.rule))
              : std::string{};
  const bool shared = verdict && plan::shares_gpus(**verdict);
  const std::string note = shared ? fmt::format("{}\n", plan::kSharesJudged) : std::string{};
  return say_verdict(context, flags.output, flags.plan.plan, ok + note,
                     verdict ? std::vector<plan::Reason>{} : verdict.error().violations);
}

}  // namespace

Command add_verify(CLI::App& app) {
  auto [command, flags] = adding<VerifyFlags>(
      app, "verify",
      "Check a plan from any tool against the services, profiles and hardware rules");
  add_plan_flags(*command, flags->plan);
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita verify plan.json --services services.yaml --profiles profiles.csv\n"
      "partita verify day.json --services services.yaml --profiles profiles.csv");
  return {command, [flags](Context& context) { return run_verify(context, *flags); }};
}

}  // namespace partita::cli
