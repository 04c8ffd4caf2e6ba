#include <algorithm>
#include <optional>

#include "commands.h"
#include "decide/comparison_report.h"
#include "flags.h"
#include "progress.h"
#include "serving/inputs.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

struct CompareFlags {
  decide::ProblemFiles problem;
  std::optional<std::string> planners;  // none: those that can plan all of the services
  std::string duration = "60s";
  decide::CompareOptions options;
  Output output;
};

Result<Exit> run_compare(Context& context, const CompareFlags& flags) {
  decide::CompareOptions options = flags.options;
  options.duration = TRY(parse_duration("--duration", flags.duration));
  const auto problem = TRY(decide::load_problem(context.files, flags.problem));
  const bool unasked = flags.problem.rule.empty() && flags.problem.dispatch.empty();
  const auto asked = unasked ? std::nullopt : std::optional(problem.rule);
  const std::string planners =
      flags.planners ? *flags.planners : decide::usual_contestants(problem);
  const auto contestants = TRY(decide::parse_contestants("--planners", planners, asked));
  const auto standings =
      TRY(decide::compare(problem, contestants, options, Progress(context).watch()));
  const auto content =
      TRY(wants_document(flags.output)
              ? document_as(flags.output, decide::comparison_json(standings, options))
              : decide::comparison_text(standings, options));
  const bool any = std::ranges::any_of(
      standings, [](const decide::Standing& standing) { return standing.made.plan.has_value(); });
  return finish(context, flags.output, content, any ? Exit::done : Exit::no);
}

}  // namespace

Command add_compare(CLI::App& app) {
  auto [command, flags] = adding<CompareFlags>(
      app, "compare",
      "Compare planners: GPUs, proof, planning time, and SLOs under simulated traffic");
  add_problem_flags(*command, flags->problem);
  add_gpu_flag(*command, flags->problem);
  flag(*command, "--planners", flags->planners);
  flag(*command, "--duration", flags->duration)->default_str(flags->duration);
  add_seed(*command, flags->options.seed);
  add_node_budget(*command, flags->options.node_budget);
  add_output(*command, flags->output, {"text", "json", "csv"});
  command->footer(
      "partita compare --services services.yaml --profiles profiles.csv --gpu A100-80GB\n"
      "partita compare ... --planners exact@queueing,parvagpu@execution:0.45");
  return {command, [flags](Context& context) { return run_compare(context, *flags); }};
}

}  // namespace partita::cli
