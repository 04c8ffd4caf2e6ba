#include <fmt/format.h>


#include "base/table.h"
#include "decide/input.h"
#include "energy/power_commands.h"
#include "flags.h"
#include "forms/power_forms.h"
#include "reasons.h"
#include "verify/judge.h"

namespace partita::cli {
namespace {

// Of the plan and its judge.
struct PowerPlanFlags {
  PowerFlags power;
  std::string plan, policy = "exact";
  int gpus = 1;
  double unused = -1;
  Output output;
};

void add_problem(CLI::App& command, PowerPlanFlags& flags) {
  add_power_flags(command, flags.power);
  within(flag(command, "--gpus", flags.gpus), 1, plan::kMaxPowerGpus)->default_str("1");
  within(flag(command, "--unused", flags.unused), 0, 5'000);
  add_output(command, flags.output, {"text", "json"});
}

Result<plan::PowerProblem> problem_of(Context& context, const PowerPlanFlags& flags) {
  auto problem = TRY(load_power(context, flags.power));
  problem.gpus = flags.gpus;
  if (flags.unused >= 0) problem.unused = Watts{flags.unused};
  return problem;
}

std::string power_plan_text(const plan::PowerProblem& problem, const plan::PowerPlan& plan) {
  Table table{{"GPU", "MHz", "CAP W", "W", "SERVICE", "UNITS", "BATCH", "RPS"}, {}};
  for (std::size_t g = 0; g < plan.gpus.size(); ++g) {
    const plan::PowerGpu& gpu = plan.gpus[g];
    for (std::size_t s = 0; s < gpu.shares.size(); ++s) {
      const plan::PowerShare& share = gpu.shares[s];
      std::vector<std::string> row{"", "", "", ""};
      if (s == 0)
        row = {fmt::format("{}", g), fmt::format("{:g}", gpu.clock.value),
               fmt::format("{:g}", gpu.cap.value), fmt::format("{:.1f}", gpu.power.value)};
      row.insert(row.end(),
                 {share.service, fmt::format("{}", share.units), fmt::format("{}", share.batch),
                  fmt::format("{:.6g}", share.rate.value)});
      table.rows.push_back(std::move(row));
    }
  }
  std::string text = to_string(table);
  text +=
      fmt::format("\n{} of {} GPUs have work; {:.1f} W", plan.gpus.size(),
                  plan.gpus.size() + static_cast<std::size_t>(plan.unused_gpus), plan.power.value);
  if (plan.unused_gpus > 0) text += fmt::format(", the {} others included", plan.unused_gpus);
  if (plan.optimal) {
    text += "; proven least";
  } else if (plan.bound.value > 0) {
    text += fmt::format("; no plan takes less than {:.1f} W ({:.2f} % off)", plan.bound.value,
                        100 * (plan.power / plan.bound - 1));
  }
  text += fmt::format("\npolicy {}, gating {}, promise {}\n", plan.policy, to_string(plan.gating),
                      to_string(plan.promise));
  if (plan.gating != plan::Gating::none)
    text += "No GPU that is sold lets users gate units: these watts are what it would take.\n";
  if (problem.table.modelled) text += "The table was " + problem.table.source + "\n";
  return text;
}

Result<Exit> run_power_plan(Context& context, const PowerPlanFlags& flags) {
  const auto problem = TRY(problem_of(context, flags));
  const auto made = TRY(decide::make_power_plan(problem, flags.policy));
  if (!made.plan) return refuse(context, flags.output, "plan", made.refusals);
  return finish(context, flags.output,
                flags.output.json() ? forms::power_plan_json(**made.plan)
                                    : power_plan_text(problem, **made.plan));
}

Result<Exit> run_power_verify(Context& context, const PowerPlanFlags& flags) {
  const auto problem = TRY(problem_of(context, flags));
  const auto text = TRY(read_input(context.files, "PLAN", flags.plan));
  const auto plan = forms::parse_power_plan(flags.plan, text);
  if (!plan) return failed(plan.error());
  const auto verdict = verify::judge(problem, *plan);
  const std::string ok = fmt::format(
      "{}: every share is in the table, keeps its SLO and the watts "
      "add up",
      flags.plan);
  return say_verdict(context, flags.output, flags.plan, ok,
                     verdict ? std::vector<plan::Reason>{} : verdict.error().violations);
}

}  // namespace

Command add_power_plan(CLI::App& power) {
  auto [command, flags] = adding<PowerPlanFlags>(
      power, "plan",
      "Choose which GPUs are on, their clocks and caps, and who has which share of them");
  add_problem(*command, *flags);
  one_of(
      flag(*command, "--policy", flags->policy,
           "exact: the least power, proven or with a bound; the others are CoFRIS's, for one GPU"),
      power::policy_names())
      ->default_str(flags->policy);
  command->footer(
      "partita plan --services services.yaml --table mi50.csv --gpu MI50 --gpus 4\n"
      "partita plan --services one.yaml --table mi50.csv --policy cofris-cu --format json");
  return {command, [flags](Context& context) { return run_power_plan(context, *flags); }};
}

Command add_power_verify(CLI::App& power) {
  auto [command, flags] = adding<PowerPlanFlags>(
      power, "verify", "Judge a power plan: units, clocks, SLOs, rates, watts");
  command->add_option("PLAN", flags->plan, "The plan, of kind PowerPlan")
      ->required()
      ->type_name("FILE");
  add_problem(*command, *flags);
  command->footer("partita verify plan.json --services services.yaml --table mi50.csv --gpus 4");
  return {command, [flags](Context& context) { return run_power_verify(context, *flags); }};
}

}  // namespace partita::cli
