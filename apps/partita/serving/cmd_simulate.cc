#include <fmt/format.h>

#include <memory>

#include "commands.h"
#include "decide/input.h"
#include "decide/reasons.h"
#include "decide/simulate.h"
#include "flags.h"
#include "progress.h"
#include "serving/inputs.h"
#include "serving/report.h"

namespace partita::cli {
namespace {

struct SimulateFlags {
  PlanFlags plan;
  std::string duration = "60s";
  std::string arrivals = "poisson";
  std::string batching = "paced";
  std::string dispatch;  // empty: the plan's
  double lateness_ms = 0;
  std::uint64_t seed = 1;
  double require = 0;
  Output output;
};

Result<sim::ServingOptions> options_of(Context& context, const SimulateFlags& flags) {
  sim::ServingOptions options;
  const Result<Seconds> duration = parse_duration("--duration", flags.duration);
  if (!duration) return failed(duration.error());
  options.duration = *duration;
  options.seed = flags.seed;
  options.batching = flags.batching == "full" ? sim::BatchingKind::full : sim::BatchingKind::paced;
  options.mean_lateness = Millis{flags.lateness_ms};
  if (!flags.dispatch.empty()) {
    const Result<plan::Dispatch> server = plan::parse_dispatch(flags.dispatch);
    if (!server) return failed(server.error());
    options.dispatch = *server;
  }
  if (flags.arrivals == "poisson") return options;
  options.arrivals = sim::ArrivalKind::uniform;
  if (flags.arrivals == "uniform") return options;
  options.arrivals = sim::ArrivalKind::trace;
  const Result<std::string> text = decide::read_input(context.files, "--arrivals", flags.arrivals);
  if (!text) return failed(text.error());
  Result<std::vector<sim::Trace>> traces = sim::parse_trace(flags.arrivals, *text);
  if (!traces) return failed(traces.error());
  options.traces = std::move(*traces);
  return options;
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
  const Result<sim::ServingOptions> options = options_of(context, flags);
  if (!options) return failed(options.error());
  const auto judged = decide::load_judged_plan(context.files, flags.plan.plan, flags.plan.problem);
  if (!judged) return failed(judged.error());
  const auto& [problem, verdict] = *judged;
  if (auto known = decide::check_traces("--arrivals", options->traces, problem); !known)
    return failed(known.error());
  if (!verdict) {
    complain(context, decide::reasons_text(flags.plan.plan + ": the plan is broken:",
                                           verdict.error().violations));
    return Exit::no;
  }
  const auto timed =
      decide::simulate(problem, *verdict, *options, Progress(context).watch().cpu_ms);
  if (!timed) return failed(timed.error());
  const std::string content =
      flags.output.format == "json"
          ? sim::report_json(timed->report, options->seed, timed->events_per_second)
          : report_text(problem, timed->report, *options);
  if (auto written = deliver(context, flags.output, content); !written) {
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
  command
      ->add_option("--duration", flags->duration,
                   "How long requests arrive: 60s, 5m, 2h, 500ms, or seconds")
      ->type_name("TIME")
      ->default_str(flags->duration);
  command
      ->add_option("--arrivals", flags->arrivals,
                   "How requests arrive: poisson, uniform (evenly spaced), or a trace CSV with "
                   "the header time_s,service")
      ->type_name("poisson|uniform|FILE")
      ->default_str(flags->arrivals);
  one_of(command->add_option("--batching", flags->batching,
                             "paced: a batch starts when its turn comes; full: a batch waits until "
                             "it is full, which planning by execution latency assumes"),
         {"paced", "full"})
      ->default_str(flags->batching);
  add_dispatch(*command, flags->dispatch, "The server to simulate (default: the plan's)");
  within(command->add_option("--lateness", flags->lateness_ms,
                             "How late the server's timers are on average, in ms"),
         0, 1000)
      ->type_name("MS");
  add_seed(*command, flags->seed);
  within(command->add_option(
             "--require", flags->require,
             "Exit 1 when a service meets its SLO for less than this share of its requests"),
         0, 1)
      ->type_name("SHARE");
  add_output(*command, flags->output, {"text", "json"});
  command->footer(
      "partita simulate plan.json --services services.yaml --profiles profiles.csv --require 0.99");
  return {command, [flags](Context& context) { return run_simulate(context, *flags); }};
}

}  // namespace partita::cli
