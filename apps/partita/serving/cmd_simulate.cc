#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "commands.h"
#include "decide/other_traffic.h"
#include "decide/reasons.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "flags.h"
#include "progress.h"
#include "serving/inputs.h"
#include "show/rows.h"

namespace partita::cli {
namespace {

struct SimulateFlags {
  PlanFlags plan;
  std::string duration = "60s";
  decide::OtherTraffic traffic;
  std::string batching = "paced";
  std::string dispatch;  // empty: the plan's
  double lateness_ms = 0;
  bool no_shed = false;
  std::uint64_t seed = 1;
  double require = 0;
  Output output;
};

Result<sim::ServingOptions> options_of(const SimulateFlags& flags) {
  sim::ServingOptions options;
  const Result<Seconds> duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  options.duration = *duration;
  options.seed = flags.seed;
  options.shed = !flags.no_shed;
  options.batching = flags.batching == "full" ? sim::BatchingKind::full : sim::BatchingKind::paced;
  options.mean_lateness = Millis{flags.lateness_ms};
  if (!flags.dispatch.empty()) {
    const Result<plan::Dispatch> server = plan::parse_dispatch(flags.dispatch);
    if (!server) return failed(server.error());
    options.dispatch = *server;
  }
  return options;
}

// What is played instead of what the services declare.
void add_traffic_flags(CLI::App& command, decide::OtherTraffic& traffic) {
  flag(command, "--arrivals", traffic.arrivals);
  within(flag(command, "--load", traffic.load), 1e-6, 1e6)->default_str("1");
  flag(command, "--what-if", traffic.what_if)->allow_extra_args(false);
}

Exit missed(Context& context, const sim::ServingReport& report, double require) {
  Exit exit = Exit::done;
  for (const sim::ServiceReport& service : report.services) {
    if (service.slo_attainment >= require) continue;
    complain(context, fmt::format("service {}: slo_attainment: have {:.6f}, need {}", service.name,
                                  service.slo_attainment, require));
    exit = Exit::no;
  }
  return exit;
}

Result<Exit> run_simulate(Context& context, const SimulateFlags& flags) {
  const Result<sim::ServingOptions> options = options_of(flags);
  if (!options) return failed(options.error());
  const auto judged = decide::load_judged_plan(context.files, flags.plan.plan, flags.plan.problem);
  if (!judged) return failed(judged.error());
  const auto& [problem, verdict] = *judged;
  const auto played = decide::play(context.files, problem, flags.traffic, *options);
  if (!played) return failed(played.error());
  if (!verdict) {
    complain(context, decide::reasons_text(flags.plan.plan + ": the plan is broken:",
                                           verdict.error().violations));
    return Exit::no;
  }
  say_doubts(context, problem, flags.plan.problem);
  say_predictions(context, flags.plan.plan, **verdict);
  auto timed = decide::simulate(played->problem, *verdict, played->options,
                                Progress(context).watch().cpu_ms);
  if (!timed) return failed(timed.error());
  timed->report.load = flags.traffic.load;
  const Result<std::string> content =
      wants_document(flags.output)
          ? document_as(flags.output,
                        sim::report_json(timed->report, options->seed, timed->events_per_second))
      : flags.output.format == "svg"
          ? decide::report_svg(played->problem, timed->report, *options)
          : decide::report_text(played->problem, timed->report, *options);
  if (!content) return failed(content.error());
  if (auto written = deliver(context, flags.output, *content); !written) {
    return failed(written.error());
  }
  return missed(context, timed->report, flags.require);
}

}  // namespace

Command add_simulate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("simulate", "Run a plan under simulated traffic and report the latencies");
  auto flags = std::make_shared<SimulateFlags>();
  add_plan_flags(*command, flags->plan);
  flag(*command, "--duration", flags->duration)->default_str(flags->duration);
  add_traffic_flags(*command, flags->traffic);
  one_of(flag(*command, "--batching", flags->batching), {"paced", "full"})
      ->default_str(flags->batching);
  add_dispatch(*command, flags->dispatch);
  within(flag(*command, "--lateness", flags->lateness_ms), 0, 1000)->default_str("0");
  flag(*command, "--no-shed", flags->no_shed);
  add_seed(*command, flags->seed);
  add_require_share(*command, flags->require);
  add_output(*command, flags->output, {"text", "json", "svg", "csv"});
  command->footer(
      "partita simulate plan.json --services services.yaml --profiles profiles.csv --require 0.99\n"
      "partita simulate plan.json ... --format svg -o latencies.svg\n"
      "partita simulate plan.json ... --format csv -o services.csv\n"
      "partita simulate plan.json ... --load 1.2 --arrivals gamma:2 --what-if chat=300\n"
      "partita simulate plan.json ... --dispatch per-process --lateness 0.3");
  return {command, [flags](Context& context) { return run_simulate(context, *flags); }};
}

}  // namespace partita::cli
