#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/nearest.h"
#include "commands.h"
#include "flags.h"
#include "serving/judge.h"
#include "serving/planning.h"
#include "serving/report.h"

namespace partita::cli {
namespace {

struct SimulateFlags {
  PlanFlags plan;
  std::string duration = "60s";
  std::string arrivals = "poisson";
  std::string batching = "paced";
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
  if (flags.arrivals == "poisson") return options;
  options.arrivals = sim::ArrivalKind::uniform;
  if (flags.arrivals == "uniform") return options;
  options.arrivals = sim::ArrivalKind::trace;
  const Result<std::string> text = read_input(context, "--arrivals", flags.arrivals);
  if (!text) return failed(text.error());
  Result<std::vector<sim::Trace>> traces = sim::parse_trace(flags.arrivals, *text);
  if (!traces) return failed(traces.error());
  options.traces = std::move(*traces);
  return options;
}

// Trace arrivals of services that the problem does not have would be dropped silently.
Result<void> check_traces(const sim::ServingOptions& options, const plan::ServingProblem& problem) {
  std::vector<std::string> names;
  for (const plan::Service& service : problem.services) names.push_back(service.name);
  for (const sim::Trace& trace : options.traces) {
    if (std::find(names.begin(), names.end(), trace.service) != names.end()) continue;
    return bad_input("--arrivals", fmt::format("the trace names an unknown service '{}'{}",
                                               trace.service, did_you_mean(trace.service, names)));
  }
  return {};
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
  const Result<Judged> judged = judge(context, flags.plan);
  if (!judged) return failed(judged.error());
  if (auto known = check_traces(*options, judged->problem); !known) return failed(known.error());
  if (!judged->violations.empty()) {
    complain(context, reasons_text(flags.plan.plan + ": the plan is broken:", judged->violations));
    return Exit::no;
  }
  const Result<TimedReport> timed =
      timed_simulation(context, judged->problem, judged->plan, *options);
  if (!timed) return failed(timed.error());
  const std::string content =
      flags.output.format == "json"
          ? sim::report_json(timed->report, options->seed, timed->events_per_second)
          : report_text(judged->problem, timed->report, *options);
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
