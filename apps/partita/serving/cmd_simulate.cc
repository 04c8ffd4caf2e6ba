#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <string>

#include "base/input.h"
#include "base/table.h"
#include "commands.h"
#include "decide/other_traffic.h"
#include "decide/reasons.h"
#include "decide/serving_report.h"
#include "decide/simulate.h"
#include "flags.h"
#include "forms/day_forms.h"
#include "progress.h"
#include "serving/inputs.h"
#include "show/rows.h"
#include "sim/report_forms.h"

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
  options.duration = TRY(parse_duration("--duration", flags.duration));
  options.seed = flags.seed;
  options.shed = !flags.no_shed;
  options.batching = flags.batching == "full" ? sim::BatchingKind::full : sim::BatchingKind::paced;
  options.mean_lateness = Millis{flags.lateness_ms};
  if (!flags.dispatch.empty()) {
    options.dispatch = TRY(plan::parse_dispatch(flags.dispatch));
  }
  return options;
}

// What is played instead of what the services declare.
void add_traffic_flags(CLI::App& command, decide::OtherTraffic& traffic) {
  flag(command, "--arrivals", traffic.arrivals);
  within(flag(command, "--load", traffic.load), 1e-6, 1e6)->default_str("1");
  flag(command, "--what-if", traffic.what_if)->allow_extra_args(false);
}

// `when`: " from 08:00" of a plan for a day.
Exit missed(Context& context, const sim::ServingReport& report, double require,
            const std::string& when = {}) {
  Exit exit = Exit::done;
  for (const sim::ServiceReport& service : report.services) {
    if (service.slo_attainment >= require) continue;
    complain(context, fmt::format("service {}{}: slo_attainment: have {:.6f}, need {}",
                                  service.name, when, service.slo_attainment, require));
    exit = Exit::no;
  }
  return exit;
}

// What nobody asked for keeps no requirement.
Exit unasked(Context& context, const std::map<std::string, long>& offered, double require) {
  Exit exit = Exit::done;
  for (const auto& [service, requests] : offered) {
    if (require <= 0 || requests > 0) continue;
    complain(context, fmt::format("service {}: nothing is asked, so nothing is known; a longer "
                                  "--duration or a higher --load asks",
                                  service));
    exit = Exit::no;
  }
  return exit;
}

struct Played {
  decide::PlayedTraffic traffic;
  decide::Timed<sim::ServingReport> timed;
};

// The plan under the flags' traffic; none: it is broken, which has been said. `doubts`: what it
// rests on is said, too.
Result<std::optional<Played>> play_plan(Context& context, const SimulateFlags& flags,
                                        plan::ServingPlan plan, const decide::ProblemFiles& inputs,
                                        bool doubts) {
  const sim::ServingOptions options = TRY(options_of(flags));
  const auto [problem, verdict] =
      TRY(decide::judge_plan(context.files, flags.plan.plan, std::move(plan), inputs));
  auto played = TRY(decide::play(context.files, problem, flags.traffic, options));
  if (!verdict) {
    complain(context, decide::reasons_text(flags.plan.plan + ": the plan is broken:",
                                           verdict.error().violations));
    return std::optional<Played>{};
  }
  if (doubts) {
    say_doubts(context, problem, inputs);
    say_predictions(context, flags.plan.plan, **verdict);
  }
  auto timed = TRY(
      decide::simulate(played.problem, *verdict, played.options, Progress(context).watch().cpu_ms));
  timed.report.load = flags.traffic.load;
  return std::optional(Played{std::move(played), std::move(timed)});
}

Result<Exit> simulate_plan(Context& context, const SimulateFlags& flags, plan::ServingPlan plan) {
  const auto played = TRY(play_plan(context, flags, std::move(plan), flags.plan.problem, true));
  if (!played) return Exit::no;
  const auto& [traffic, timed] = *played;
  const std::string content = TRY(
      wants_document(flags.output)
          ? document_as(flags.output,
                        sim::report_json(timed.report, flags.seed, timed.events_per_second))
      : flags.output.svg() ? decide::report_svg(traffic.problem, timed.report, traffic.options)
                           : decide::report_text(traffic.problem, timed.report, traffic.options));
  TRY(deliver(context, flags.output, content));
  std::map<std::string, long> offered;
  for (const sim::ServiceReport& one : timed.report.services) offered[one.name] = one.offered;
  const Exit asked = unasked(context, offered, flags.require);
  const Exit met = missed(context, timed.report, flags.require);
  return asked == Exit::done ? met : asked;
}

// A row for each period: what was asked for in it, and whom it served worst.
std::string day_report_text(const SimulateFlags& flags, const sim::StatedDayReport& day) {
  Table table{{"FROM", "TO", "GPUS", "OFFERED", "COMPLETED", "WORST SERVICE", "IN SLO", "p99 ms"},
              {}};
  for (const sim::StatedDayReport::Period& period : day.periods) {
    long offered = 0, completed = 0;
    const auto& services = period.report.services;
    for (const sim::ServiceReport& service : services) {
      offered += service.offered;
      completed += service.completed;
    }
    const auto worst = std::min_element(
        services.begin(), services.end(),
        [](const auto& a, const auto& b) { return a.slo_attainment < b.slo_attainment; });
    table.rows.push_back({period.from, period.to, fmt::format("{}", period.gpus),
                          fmt::format("{}", offered), fmt::format("{}", completed), worst->name,
                          offered > 0 ? decide::percent(worst->slo_attainment) : "-",
                          fmt::format("{:.1f}", worst->p99.value)});
  }
  return to_string(table) +
         fmt::format("\n{} of each period, load {:g}, seed {}; changes are for `verify`\n",
                     flags.duration, flags.traffic.load, flags.seed);
}

Result<Exit> simulate_day(Context& context, const SimulateFlags& flags, plan::DayPlan day) {
  if (flags.output.svg())
    return bad_input("--format", "svg shows one plan: --at HH:MM says whose of the day's");
  sim::StatedDayReport report;
  Exit exit = Exit::done;
  std::map<std::string, long> offered;
  for (plan::DayPeriod& period : day.periods) {
    decide::ProblemFiles inputs = flags.plan.problem;
    inputs.at = plan::clock_text(period.from);
    const int gpus = period.plan.objective.gpus;
    const auto played =
        TRY(play_plan(context, flags, std::move(period.plan), inputs, report.periods.empty()));
    if (!played) return Exit::no;
    const auto& timed = played->timed;
    report.periods.push_back({inputs.at, plan::clock_text(period.to), gpus,
                              sim::stated(timed.report, flags.seed, timed.events_per_second)});
    if (missed(context, timed.report, flags.require, " from " + inputs.at) != Exit::done)
      exit = Exit::no;
    for (const sim::ServiceReport& one : timed.report.services) offered[one.name] += one.offered;
  }
  if (unasked(context, offered, flags.require) != Exit::done) exit = Exit::no;
  const std::string content =
      TRY(wants_document(flags.output) ? document_as(flags.output, sim::report_json(report))
                                       : day_report_text(flags, report));
  TRY(deliver(context, flags.output, content));
  return exit;
}

Result<Exit> run_simulate(Context& context, const SimulateFlags& flags) {
  const std::string& file = flags.plan.plan;
  const auto text = TRY(read_input(context.files, "PLAN", file));
  if (flags.plan.problem.at.empty())
    if (auto day = forms::parse_day(file, text))
      return simulate_day(context, flags, *std::move(day));
  auto plan = TRY(decide::parse_plan_at(file, text, flags.plan.problem.at));
  return simulate_plan(context, flags, std::move(plan));
}

}  // namespace

Command add_simulate(CLI::App& app) {
  auto [command, flags] = adding<SimulateFlags>(
      app, "simulate", "Run a plan under simulated traffic and report the latencies");
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
      "partita simulate plan.json ... --dispatch per-process --lateness 0.3\n"
      "partita simulate day.json ... --duration 10s");
  return {command, [flags](Context& context) { return run_simulate(context, *flags); }};
}

}  // namespace partita::cli
